#include "train/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tapestry {

Metrics values_of(const MetricSums& averages) {
  Metrics values;
  for (const auto& [name, average] : averages) values[name] = average.value();
  return values;
}

std::string comparison(const std::vector<Baseline>& baselines, double loss) {
  const auto loss_of = [](const Baseline& baseline) { return baseline.metrics.at("loss"); };
  const Baseline& best = *std::ranges::min_element(baselines, {}, loss_of);
  constexpr double clearly = 0.99;
  if (loss > clearly * loss_of(best))
    return fmt::format(
        "No clear improvement on the baselines: the loss of this model is {:.4g}, that of the {} "
        "{:.4g}.",
        loss, best.name, loss_of(best));
  return fmt::format("The loss is {:.2g} % lower than that of the best baseline, {}.",
                     100 * (1 - loss / loss_of(best)), best.name);
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
