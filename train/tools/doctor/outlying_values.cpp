#include "train/tools/doctor/outlying_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/graphs/node_graph.hpp"
#include "data/series/series.hpp"
#include "data/text/text.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t fewest_different = 16;  // or it is a column of classes or small counts
constexpr std::int64_t repeated = 3;
constexpr double far_repeated = 5, far_once = 1000;      // times the range of the other values
constexpr double huge = 1e15;                            // of which squares soon overflow
constexpr std::int64_t most_column_numbers = 2'000'000;  // to be read of a split

struct Column {
  std::string name{};  // "column 3 of 7 of the inputs"
  std::vector<float> values{};
};

bool has_few_different(std::span<const float> sorted) {
  std::int64_t different = 1;
  for (std::size_t i = 1; i < sorted.size() && different < fewest_different; ++i)
    different += sorted[i] != sorted[i - 1];
  return different < fewest_different;
}

// `sorted` without its `count` first or last values, which are the same.
std::optional<Outlier> judge_end(std::span<const float> sorted, bool at_front) {
  const float value = at_front ? sorted.front() : sorted.back();
  const auto same = std::ranges::equal_range(sorted, value);
  const std::size_t count = same.size();
  const auto others = at_front ? sorted.subspan(count) : sorted.first(sorted.size() - count);
  if (others.empty()) return std::nullopt;
  const double low = others.front(), high = others.back(), range = high - low;
  const double gap = at_front ? low - value : value - high;
  const bool is_huge = gap > huge * std::max({1.0, std::abs(low), std::abs(high)});
  const bool is_far = !has_few_different(others) &&
                      gap > range * (std::ssize(same) >= repeated ? far_repeated : far_once);
  if (!is_huge && !is_far) return std::nullopt;
  return Outlier{.value = value,
                 .count = static_cast<std::int64_t>(count),
                 .low = others.front(),
                 .high = others.back()};
}

// Adds an example's numbers by its last axis.
void add(std::vector<Column>& columns, const Array& numbers, const char* what) {
  if (numbers.dtype() != DType::float32 || numbers.rank() < 2) return;
  const auto width = static_cast<std::size_t>(numbers.dim(-1));
  for (std::size_t c = columns.size(); c < width; ++c)
    columns.push_back({.name = fmt::format("column {} of {} of the {}", c + 1, width, what)});
  const auto values = numbers.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) columns[i % width].values.push_back(values[i]);
}

// Of a graph whose nodes are the examples, each example has all of the features.
bool is_one_graph(const Batch& one) {
  const auto* graph = one.find<GraphPart>();
  return graph != nullptr && graph->first_nodes.empty();
}

void add_split(const Dataset& data, std::vector<Column>& inputs, std::vector<Column>& targets) {
  const Batch first = data.batch(std::vector<std::int64_t>{0});
  const std::int64_t numbers =
      std::max<std::int64_t>(1, first.inputs.size() + first.targets.size());
  const std::int64_t most = is_one_graph(first) ? 1 : most_column_numbers / numbers;
  for (const std::int64_t example : evenly(data.size(), std::max<std::int64_t>(1, most))) {
    const Batch one = data.batch(std::vector{example});
    add(inputs, one.inputs, "inputs");
    add(targets, one.targets, "targets");
  }
}

Fault fault_of(const Outlier& outlier, const std::string& where, const std::string& first_at) {
  return {fmt::format("the value {:.6g} stands {} time{} in {}{}; all others there are between "
                      "{:.6g} and {:.6g}",
                      outlier.value, outlier.count, outlier.count == 1 ? "" : "s", where, first_at,
                      outlier.low, outlier.high),
          "it stands for a value that is missing, or is an error of measurement",
          "replace it, or leave out those rows; where it is a true value: --skip values"};
}

// Each row of the table once, as its file has it, whatever windows are cut from it.
std::optional<Fault> outlying_in(const SeriesTable& table, std::int64_t rows) {
  const auto M = std::ssize(table.names);
  const auto numbers = table.values.values<float>();
  for (std::int64_t m = 0; m < M; ++m) {
    std::vector<float> column;
    for (std::int64_t row = 0; row < rows; ++row) column.push_back(numbers[row * M + m]);
    const std::optional<Outlier> found = outlier_of(column);
    if (!found) continue;
    const auto first = std::ranges::find(column, found->value) - column.begin();
    return fault_of(*found, fmt::format("column {}", printable_beginning(table.names[m])),
                    fmt::format(", first at {}", time_text(table.times[first])));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Outlier> outlier_of(std::vector<float> column) {
  std::erase_if(column, [](float x) { return !std::isfinite(x); });
  if (column.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(column);
  if (least >= 0 && most <= 1) return std::nullopt;
  std::ranges::sort(column);
  const auto low = judge_end(column, true), high = judge_end(column, false);
  if (!low || !high) return low ? low : high;
  return std::abs(low->value) > std::abs(high->value) ? low : high;
}

std::optional<Fault> outlying_value(TrainingUnderTest& under_test) {
  std::vector<const Dataset*> splits = {&under_test.task().training_data()};
  for (const TrainingUnderTest::EvaluationSplit& split : under_test.evaluation_splits())
    splits.push_back(split.data);
  if (const auto* last = dynamic_cast<const SeriesDataset*>(splits.back()); last && last->table())
    return outlying_in(*last->table(), last->end_row());
  std::vector<Column> inputs, targets;
  for (const Dataset* split : splits) add_split(*split, inputs, targets);
  for (const std::vector<Column>* columns : {&inputs, &targets})
    for (const Column& column : *columns)
      if (const std::optional<Outlier> found = outlier_of(column.values))
        return fault_of(*found, column.name, "");
  return std::nullopt;
}

}  // namespace tapestry
