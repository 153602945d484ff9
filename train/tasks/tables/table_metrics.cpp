#include "train/tasks/tables/table_metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/dry_run.hpp"
#include "train/tasks/classification.hpp"

namespace tapestry {

// The sum of the ranks of the class's examples, equal scores having the mean of their ranks (Mann
// and Whitney 1947).
double area_under_curve(std::span<const double> scores, std::span<const char> is_class) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return scores[i]; });
  double ranks = 0, count = 0;
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    double of_class = 0;
    for (; last < order.size() && scores[order[last]] == scores[order[first]]; ++last)
      of_class += is_class[order[last]];
    ranks += of_class * static_cast<double>(first + last + 1) / 2;
    count += of_class;
  }
  const double others = static_cast<double>(scores.size()) - count;
  if (count == 0 || others == 0) return std::numeric_limits<double>::quiet_NaN();
  return (ranks - count * (count + 1) / 2) / (count * others);
}

namespace {

double mean_area(const ScoredExamples& scored, std::size_t V) {
  const std::size_t N = scored.targets.size();
  std::vector<double> scores(N);
  std::vector<char> is_class(N);
  double sum = 0, classes = 0;
  for (std::size_t v = V == 2 ? 1 : 0; v < V; ++v) {
    for (std::size_t i = 0; i < N; ++i) {
      scores[i] = scored.scores[i * V + v];
      is_class[i] = scored.targets[i] == static_cast<std::int32_t>(v);
    }
    const double area = area_under_curve(scores, is_class);
    if (std::isnan(area)) continue;
    sum += area;
    ++classes;
  }
  return sum / classes;
}

}  // namespace

void add_classification_metrics(const ScoredExamples& scored, Metrics& metrics) {
  constexpr std::size_t bins = 10;
  const std::size_t N = scored.targets.size(), V = scored.scores.size() / N;
  std::vector<MetricSum> recalls(V);
  std::array<double, bins> surplus{};  // of each bin: Σ (probability - whether it is right)
  double squares = 0;
  for (std::size_t i = 0; i < N; ++i) {
    const auto p = std::span(scored.scores).subspan(i * V, V);
    const std::size_t predicted = std::ranges::max_element(p) - p.begin();
    const auto target = static_cast<std::size_t>(scored.targets[i]);
    const double is_right = predicted == target;
    recalls[target] += {is_right, 1};
    const auto bin = static_cast<std::int64_t>(std::ceil(p[predicted] * bins)) - 1;
    surplus[std::clamp<std::int64_t>(bin, 0, bins - 1)] += p[predicted] - is_right;
    for (std::size_t v = V == 2 ? 1 : 0; v < V; ++v)
      squares += std::pow(p[v] - (v == target ? 1 : 0), 2);
  }
  MetricSum recall;
  for (const MetricSum& one : recalls)
    if (one.count > 0) recall += {one.value(), 1};
  double apart = 0;
  for (const double one : surplus) apart += std::abs(one);
  metrics["balanced_accuracy"] = recall.value();
  metrics["calibration_error"] = apart / static_cast<double>(N);
  metrics["brier"] = squares / static_cast<double>(N);
  if (const double area = mean_area(scored, V); !std::isnan(area)) metrics["auc"] = area;
}

void add_regression_sums(MetricSums& sums, const Array& predictions, const Array& targets) {
  if (is_dry_run()) return;
  const Array y = predictions.to(DType::float64), goals = targets.to(DType::float64);
  MetricSum squares, errors, mean, mean_square;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const double goal = goals.values<double>()[i], error = y.values<double>()[i] - goal;
    squares += {error * error, 1};
    errors += {std::abs(error), 1};
    mean += {goal, 1};
    mean_square += {goal * goal, 1};
  }
  sums["loss"] += squares;
  sums["mae"] += errors;
  sums["target"] += mean;
  sums["target_square"] += mean_square;
}

void derive_regression_metrics(Metrics& metrics, double deviation) {
  if (!metrics.contains("target")) return;
  const double mean = metrics.at("target");
  const double variance = metrics.at("target_square") - mean * mean;
  metrics["rmse"] = std::sqrt(metrics.at("loss")) * deviation;
  metrics["mae"] *= deviation;
  if (variance > 1e-12 * metrics.at("target_square"))
    metrics["r2"] = 1 - metrics.at("loss") / variance;
  metrics.erase("target");
  metrics.erase("target_square");
}

std::vector<MetricInfo> table_metrics() {
  using enum MetricInfo::Better;
  std::vector<MetricInfo> all = classification_metrics();
  all.insert(
      all.end(),
      {{"macro_f1", "", higher, "the mean over the classes of F1"},
       {"balanced_accuracy", "", higher, "the mean over the classes of the share that is found"},
       {"auc", "", higher,
        "the area under the ROC curve; of more than two classes the mean of one against the rest"},
       {"calibration_error", "", lower,
        "the expected calibration error: the mean distance, in ten bins of the highest "
        "probability, of this probability from the accuracy"},
       {"brier", "", lower, "the mean squared error of the probabilities (Brier score)"},
       {"rmse", "units of the target", lower, "the root of the mean squared error"},
       {"mae", "units of the target", lower, "the mean absolute error"},
       {"r2", "", higher, "1 - the mean squared error / the variance of the targets (R²)"}});
  return all;
}

}  // namespace tapestry
