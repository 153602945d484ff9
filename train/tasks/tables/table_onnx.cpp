#include <algorithm>
#include <bit>

#include "data/json.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/tasks/tables/table_task.hpp"

namespace tapestry {
namespace {

// Returns numbers (B, N) float64 as scaled ones, by linear interpolation between the knots of their
// columns, which a binary search finds. Each column has as many places for knots, a power of two.
onnx::Value scaled_numbers(const std::vector<Knots>& columns, const onnx::Value& x) {
  onnx::Graph& graph = *x.graph;
  std::size_t places = 1;
  for (const Knots& knots : columns) places = std::max(places, std::bit_ceil(knots.size()));
  std::vector<double> least, numbers, scores, slopes;
  std::vector<std::int64_t> first;
  for (const Knots& knots : columns) {
    first.push_back(std::ssize(numbers));
    least.push_back(knots.front().first);
    for (std::size_t i = 0; i < places; ++i) {
      const auto& [number, score] = knots[std::min(i, knots.size() - 1)];
      numbers.push_back(number);
      scores.push_back(score);
      slopes.push_back(
          i + 1 < knots.size() ? (knots[i + 1].second - score) / (knots[i + 1].first - number) : 0);
    }
  }
  const auto constant = [&](const std::vector<double>& values, const char* name) {
    return graph.constant(Array::of(values, {std::ssize(values)}), name);
  };
  const onnx::Value knots = constant(numbers, "knots");
  const onnx::Value inside = onnx::at_least(x, constant(least, "least"));
  onnx::Value place = graph.integers(first);
  for (auto step = static_cast<std::int64_t>(places) / 2; step > 0; step /= 2) {
    const onnx::Value next = place + graph.constant(step);
    place = onnx::where(onnx::below(inside, onnx::gather(knots, next)), place, next);
  }
  return onnx::gather(constant(scores, "scores"), place) +
         (inside - onnx::gather(knots, place)) * onnx::gather(constant(slopes, "slopes"), place);
}

// Adds the input of the numbers and returns what the model reads of them: scaled, 0 where one is
// missing, and each followed by its mask, if it has one.
onnx::Value numbers_of(const TableColumns& columns, onnx::Graph& graph) {
  std::vector<Knots> knots;
  std::vector<std::int64_t> masked, order;
  std::string names;
  for (const InputColumn& column : columns.inputs) {
    if (column.categories) continue;
    order.push_back(std::ssize(knots));
    if (column.has_mask) {
      masked.push_back(std::ssize(knots));
      order.push_back(-std::ssize(masked));
    }
    knots.push_back(column.knots);
    names += (names.empty() ? "" : ", ") + column.name;
  }
  const onnx::Value x =
      graph.input({.name = "numbers",
                   .type = onnx::Type::float64,
                   .shape = {"batch", std::ssize(knots)},
                   .help = "as in the table, NaN where one is missing, times as days since "
                           "1970-01-01: " +
                           names});
  const onnx::Value is_missing = onnx::is_nan(x);
  const onnx::Value zero = graph.constant(Array::zeros({}, DType::float64), "zero");
  const onnx::Value scaled =
      onnx::to_float(onnx::where(is_missing, zero, scaled_numbers(knots, x)));
  if (masked.empty()) return scaled;
  const onnx::Value masks = onnx::gather(onnx::to_float(is_missing), graph.integers(masked), 1);
  for (std::int64_t& place : order)
    if (place < 0) place = std::ssize(knots) - 1 - place;
  return onnx::gather(onnx::concat({scaled, masks}, 1), graph.integers(order), 1);
}

}  // namespace

// Returns the graph, which reads numbers as the table has them and indices of categories.
onnx::Models table_graphs(TableTask& task) {
  const TableColumns& columns = task.data().columns();
  const TargetColumn& target = columns.target;
  auto graph = std::make_shared<onnx::Graph>("model", "Predicts the column " + target.name + ".");
  onnx::TableRows rows;
  if (columns.numbers() > 0) rows.numbers = numbers_of(columns, *graph);
  if (const std::int64_t K = std::ssize(columns.category_counts()); K > 0)
    rows.categories =
        graph->input({.name = "categories",
                      .type = onnx::Type::int64,
                      .shape = {"batch", K},
                      .help = "indices from 1 in the lists of the metadata \"columns\"; 0: missing "
                              "or another category"});
  const onnx::Value y = onnx::forward(task.model(), rows);  // (B, M, outputs)
  graph->note("columns", columns.to_json());
  if (task.data().has_classes()) {
    graph->output({.name = "probabilities",
                   .shape = {"batch", std::ssize(target.classes)},
                   .help = "of the classes of the metadata \"class_names\""},
                  onnx::mean(onnx::softmax(y), 1));
    graph->note("class_names", JsonValue(target.classes).dump());
  } else {
    graph->output({.name = "prediction", .shape = {"batch"}, .help = "in units of the target"},
                  onnx::squeeze(onnx::mean(y, 1), 1) * target.deviation + target.mean);
  }
  return {graph};
}

}  // namespace tapestry
