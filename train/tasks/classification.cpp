#include "train/tasks/classification.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "autograd/array.hpp"
#include "autograd/counted.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/softmax.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"
#include "train/inspect/recognized.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"

namespace tapestry {

std::vector<std::int32_t> likeliest(const Array& logits) {
  const Array scores = logits.to(DType::float32);
  const auto V = scores.dim(1);
  std::vector<std::int32_t> classes(scores.dim(0));
  for (std::size_t row = 0; row < classes.size(); ++row)
    classes[row] = static_cast<std::int32_t>(argmax(scores.values<float>().subspan(row * V, V)));
  return classes;
}

MetricSum accuracy(const Array& logits, const Array& targets) {
  if (is_dry_run()) return {};
  const std::vector<std::int32_t> said = likeliest(logits);
  const auto wanted = targets.values<std::int32_t>();
  MetricSum right;
  for (std::size_t i = 0; i < said.size(); ++i)
    if (wanted[i] != ignored_target) right += {static_cast<double>(said[i] == wanted[i]), 1};
  return right;
}

namespace {
constexpr std::string_view f1_prefix = "f1 of class ";
}

void add_f1_counts(MetricSums& averages, const Array& logits, const Array& targets) {
  if (is_dry_run()) return;
  const std::vector<std::int32_t> said = likeliest(logits);
  const auto wanted = targets.values<std::int32_t>();
  const auto of = [&](std::int32_t label) -> MetricSum& {
    return averages[fmt::format("{}{}", f1_prefix, label)];
  };
  for (std::size_t i = 0; i < said.size(); ++i) {
    of(said[i]) += {said[i] == wanted[i] ? 2.0 : 0.0, 1};
    of(wanted[i]) += {0, 1};
  }
}

void derive_macro_f1(Metrics& metrics) {
  double sum = 0, classes = 0;
  std::erase_if(metrics, [&](const auto& metric) {
    if (!metric.first.starts_with(f1_prefix)) return false;
    sum += metric.second;
    ++classes;
    return true;
  });
  if (classes > 0) metrics["macro_f1"] = sum / classes;
}

std::vector<double> balanced_weights(const std::vector<std::int32_t>& labels, std::int64_t V) {
  std::vector<double> weights(V);
  for (const std::int32_t label : labels) ++weights.at(label);
  const double N = static_cast<double>(labels.size()), classes = static_cast<double>(V);
  for (double& weight : weights) weight = weight > 0 ? N / (classes * weight) : 0;
  return weights;
}

Tensor weighted_cross_entropy(const Tensor& logits, const Array& targets,
                              const std::vector<double>& weights) {
  const std::int64_t N = logits.dim(0), V = logits.dim(1);
  require(std::ssize(weights) == V,
          "weighted_cross_entropy: {} weights for {} classes; expected one for each",
          weights.size(), V);
  Array factors = Array::zeros({N, V}, DType::float64);  // of log p
  if (!is_dry_run())
    for (std::int64_t i = 0; i < N; ++i) {
      const std::int32_t target = targets.values<std::int32_t>()[i];
      if (target != ignored_target)
        factors.mutable_values<double>()[i * V + target] = -weights.at(target);
    }
  return sum(log_softmax(logits) * factors.to(logits.dtype()));
}

Loss classification_loss(const Tensor& logits, const Batch& batch,
                         const std::vector<double>& weights) {
  const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
  return {weights.empty() ? total : weighted_cross_entropy(logits, batch.targets, weights),
          {{"loss", {total.item(), batch.count}},
           {"accuracy", accuracy(logits.value(), batch.targets)}}};
}

ClassPredictions class_predictions(const Array& logits, const Array& targets) {
  const std::vector<std::int32_t> predicted = likeliest(logits);
  const auto wanted = targets.values<std::int32_t>();
  const Array scores_of_all = logits.to(DType::float32);
  const std::int64_t V = logits.dim(1);
  ClassPredictions all;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (wanted[i] == ignored_target) continue;
    const auto scores = scores_of_all.values<float>().subspan(i * V, V);
    const double highest = scores[predicted[i]];
    double total = 0;
    for (const float score : scores) total += std::exp(score - highest);
    all.push_back({.example = static_cast<std::int64_t>(i),
                   .predicted = predicted[i],
                   .target = wanted[i],
                   .probability = 1 / total});
  }
  return all;
}

ClassPredictions class_predictions(const Dataset& split, std::int64_t at_once,
                                   const std::function<Array(const Batch& batch)>& logits_of) {
  constexpr std::int64_t most = 10'000;
  const std::int64_t count = std::min(split.size(), most);
  ClassPredictions all;
  for (std::int64_t first = 0; first < count; first += at_once) {
    const Batch batch = batch_from(split, first, std::min(at_once, count - first));
    const Array logits = logits_of(batch);
    expect_finite(logits);
    for (ClassPrediction prediction : class_predictions(logits, batch.targets)) {
      prediction.example += first;
      all.push_back(prediction);
    }
  }
  return all;
}

void sort_errors_first(ClassPredictions& predictions) {
  std::ranges::stable_sort(predictions, {}, [](const ClassPrediction& one) {
    return one.is_right() ? 1.0 : -one.probability;
  });
}

TablePanel confusion_matrix(const ClassPredictions& predictions,
                            const std::vector<std::string>& class_names) {
  constexpr std::size_t most_columns = 40;  // with more classes only the accuracies are shown
  const std::size_t V = class_names.size(), columns = V > most_columns ? 0 : V;
  std::vector<std::vector<double>> counts(V, std::vector<double>(V));
  for (const auto& [example, predicted, target, probability] : predictions) {
    const auto [least, most] = std::minmax(predicted, target);
    expect_input(least >= 0 && most < std::ssize(class_names),
                 "confusion_matrix: example {} has the target {} and the prediction {}; expected "
                 "classes below {}, the number of class names",
                 example, target, predicted, V);
    ++counts[target][predicted];
  }
  TablePanel panel{
      .title = "Confusion matrix",
      .caption = fmt::format("Targets and predictions of {} that the model "
                             "was not trained on.{}",
                             counted(std::ssize(predictions), "example"),
                             columns > 0 ? " The color shows the share of a row." : ""),
      .rows = {{"Target ↓ Prediction →"}},
      .shares = {{}}};
  panel.rows[0].insert(panel.rows[0].end(), class_names.begin(), class_names.begin() + columns);
  panel.rows[0].emplace_back("accuracy");
  for (std::size_t target = 0; target < V; ++target) {
    const double total = std::accumulate(counts[target].begin(), counts[target].end(), 0.0);
    std::vector<std::string> row = {class_names[target]};
    std::vector<double> shares = {0};
    for (std::size_t predicted = 0; predicted < columns; ++predicted) {
      row.push_back(fmt::format("{}", counts[target][predicted]));
      shares.push_back(total > 0 ? counts[target][predicted] / total : 0);
    }
    row.push_back(total > 0 ? fmt::format("{:.3f}", counts[target][target] / total) : "");
    panel.rows.push_back(std::move(row));
    panel.shares.push_back(std::move(shares));
  }
  return panel;
}

namespace {

// Returns the number of ranked classes; 0: the probabilities of all classes in their order.
std::int64_t ranked_classes(std::int64_t V, std::int64_t best) {
  constexpr std::int64_t most_columns = 100, few = 5;
  return std::min(V, best > 0 ? best : V > most_columns ? few : 0);
}

}  // namespace

std::vector<PredictedColumn> class_columns(const std::vector<std::string>& class_names,
                                           std::int64_t best) {
  std::vector<PredictedColumn> columns{{"prediction"}};
  const std::int64_t ranked = ranked_classes(std::ssize(class_names), best);
  if (ranked == 0)
    for (const std::string& name : class_names) columns.push_back({"p:" + name, true});
  for (std::int64_t rank = 1; rank <= ranked; ++rank) {
    if (rank > 1) columns.push_back({fmt::format("prediction {}", rank)});
    columns.push_back({rank == 1 ? "p" : fmt::format("p {}", rank), true});
  }
  columns.push_back({"unusual"});
  return columns;
}

std::vector<Prediction> class_cells(const Array& logits,
                                    const std::vector<std::string>& class_names,
                                    std::int64_t best) {
  const Array scores = logits.to(DType::float32), all = softmax(scores).value();
  expect_finite(scores);
  const std::int64_t V = std::ssize(class_names), ranked = ranked_classes(V, best);
  expect_input(logits.dim(1) == V,
               "class_cells: logits {} and {} class names; expected one for each column",
               logits.shape(), V);
  std::vector<Prediction> predictions(logits.dim(0));
  for (std::size_t row = 0; row < predictions.size(); ++row) {
    const auto score = scores.values<float>().subspan(row * V, V),
               probability = all.values<float>().subspan(row * V, V);
    std::vector<std::string>& cells = predictions[row].cells;
    const auto add = [&](std::int64_t i) { cells.push_back(fmt::format("{}", probability[i])); };
    if (ranked == 0) {
      cells.push_back(class_names[std::ranges::max_element(score) - score.begin()]);
      for (std::int64_t i = 0; i < V; ++i) add(i);
    } else {
      std::vector<std::int64_t> order(V);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, std::greater(), [&](std::int64_t i) { return score[i]; });
      for (const std::int64_t i : std::span(order).first(ranked)) {
        cells.push_back(class_names[i]);
        add(i);
      }
    }
    cells.emplace_back();  // unusual
  }
  return predictions;
}

Sample class_probabilities(const Array& logits, const std::vector<std::string>& class_names,
                           const ShownInputs& inputs) {
  const Array all = softmax(logits).value().to(DType::float32);
  const std::size_t V = class_names.size();
  Sample sample{.json = {{inputs.list, JsonValue::array()}}};
  for (std::size_t row = 0; row < inputs.texts.size(); ++row) {
    const auto probability = all.values<float>().subspan(row * V, V);
    std::vector<std::size_t> order(V);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return probability[i]; });
    std::vector<std::string> likely;
    for (const std::size_t i : std::span(order).first(std::min<std::size_t>(3, V)))
      likely.push_back(fmt::format("{} {:.2f}", class_names[i], probability[i]));
    const std::string input = printable(inputs.texts[row]);
    sample.text += fmt::format("{}: {}\n", input, fmt::join(likely, ", "));
    JsonValue probabilities;
    for (const std::size_t i : order) probabilities[class_names[i]] = probability[i];
    sample.json[inputs.list].push_back(
        {{inputs.item, input}, {"class", class_names[order[0]]}, {"probabilities", probabilities}});
  }
  return sample;
}

void compare_class_sizes(Recognized& found, const std::vector<std::int64_t>& counts,
                         const std::vector<std::string>& names, const std::string& noun) {
  const auto [fewest, most] = std::ranges::minmax_element(counts);
  if (*fewest > 0 && *most <= 10 * *fewest) return;
  found.problems.push_back(fmt::format("class {} has {}, class {} has {}",
                                       names[fewest - counts.begin()], counted(*fewest, noun),
                                       names[most - counts.begin()], counted(*most, noun)));
}

void note_class_names(Recognized& found, const std::vector<std::string>& names) {
  std::map<std::string, std::string> known;
  for (const std::string& name : names)
    if (const auto [same, is_new] = known.emplace(as_seen(name), name); !is_new)
      found.problems.push_back(printable(
          fmt::format("the classes {} and {} differ only in {}", same->second, name,
                      lower_case(same->second) == lower_case(name)
                          ? "case"
                          : "how their characters are encoded, or in some that nobody sees")));
  const auto bare = [](std::string_view part) {  // of a list as Python writes it: ['a', 'b']
    const std::size_t begin = std::min(part.find_first_not_of(" ['\""), part.size());
    return part.substr(begin, part.find_last_not_of(" ]'\"") + 1 - begin);
  };
  for (const char mark : {'|', ',', ';'}) {
    std::map<std::string_view, int> parts;  // with the number of names that have it
    for (const std::string& name : names)
      for (const std::string_view part : split(name, mark)) ++parts[bare(part)];
    const auto joined = std::ranges::find_if(names, [&](const std::string& name) {
      return name.find(mark) != name.npos && std::ranges::all_of(split(name, mark), [&](auto part) {
               return parts[bare(part)] > 1;
             });
    });
    if (joined == names.end()) continue;
    found.problems.push_back(printable(
        fmt::format("the class {} may be several labels; an example has one label here", *joined)));
    return;
  }
}

std::vector<MetricInfo> classification_metrics() {
  using enum MetricInfo::Better;
  return {{"loss", "nats", lower, "the negative log likelihood of the class"},
          {"accuracy", "", higher, "the share of correct classes"}};
}

}  // namespace tapestry
