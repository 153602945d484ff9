#include "train/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tapestry {

Metrics values_of(const MetricSums& averages) {
  Metrics values;
  for (const auto& [name, average] : averages) values[name] = average.value();
  return values;
}

bool is_reserved_metric(std::string_view name) {
  constexpr std::array<std::string_view, 7> names{"step",      "split",     "elapsed_s", "lr",
                                                  "grad_norm", "bad_steps", "baselines"};
  constexpr std::array<std::string_view, 3> endings{"_per_s", "_signature", "_xxh3"};
  return name.starts_with("test_") || std::ranges::count(names, name) > 0 ||
         std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

Loss loss_of(Task& task, const Batch& batch, const Pass& pass) {
  expect_input(batch.count >= 0 && std::isfinite(batch.count),
               "Dataset::batch: count is {}; expected the number of loss terms, 0 or more",
               batch.count);
  Loss loss = task.loss(batch, pass);
  expect_input(
      loss.averages.contains("loss"),
      "Task::loss: the averages lack \"loss\"; add the sum of the examples' losses and their "
      "number");
  for (const auto& [name, average] : loss.averages)
    expect_input(!is_reserved_metric(name),
                 "Task::loss: an average is named {:?}, which metrics.jsonl uses for something "
                 "else; rename it",
                 name);
  return loss;
}

namespace {

// Less than this share of a baseline's loss, or of its errors, is clearly better.
constexpr double clearly = 0.99;

// Returns the baseline with the highest or the lowest value of a metric that all have.
const Baseline& best_by(const Baselines& baselines, const std::string& metric, bool is_highest) {
  const auto value = [&](const Baseline& one) {
    require(one.metrics.contains(metric), "Task::baselines: {} lacks the metric {}; add it",
            one.name, metric);
    return (is_highest ? -1 : 1) * one.metrics.at(metric);
  };
  return *std::ranges::min_element(baselines, {}, value);
}

}  // namespace

std::string comparison(const Baselines& baselines, const Metrics& metrics) {
  const Baseline& best = best_by(baselines, "loss", false);
  const double loss = metrics.at("loss"), their_loss = best.metrics.at("loss");
  const auto unclear = [](const char* name, double own, const Baseline& one) {
    return fmt::format(
        "No clear improvement on the baselines: the {} of this model is {:.4g}, that of the {} "
        "{:.4g}.",
        name, own, one.name, one.metrics.at(name));
  };
  const auto accuracy = metrics.find("accuracy");
  const bool has_accuracy =
      accuracy != metrics.end() &&
      std::ranges::all_of(baselines, [](auto& one) { return one.metrics.contains("accuracy"); });
  const Baseline* rival = has_accuracy ? &best_by(baselines, "accuracy", true) : nullptr;
  if (rival && 1 - accuracy->second > clearly * (1 - rival->metrics.at("accuracy")))
    return unclear("accuracy", accuracy->second, *rival);
  if (loss > clearly * their_loss) return unclear("loss", loss, best);
  if (rival)
    return fmt::format("The accuracy is {:.4g}, that of the best baseline, {}, {:.4g}.",
                       accuracy->second, rival->name, rival->metrics.at("accuracy"));
  return fmt::format("The loss is {:.2g} % lower than that of the best baseline, {}.",
                     100 * (1 - loss / their_loss), best.name);
}

Batch batch_from(const Dataset& data, std::int64_t first, std::int64_t most) {
  std::vector<std::int64_t> examples(std::min(most, data.size() - first));
  std::iota(examples.begin(), examples.end(), first);
  return data.batch(examples);
}

const std::string& kept_value(const std::map<std::string, std::string>& metadata,
                              const std::string& name) {
  const auto found = metadata.find(name);
  require(found != metadata.end(), "the metadata \"task.{}\" is missing", name);
  return found->second;
}

}  // namespace tapestry
