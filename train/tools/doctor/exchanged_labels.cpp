#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/dependence.hpp"

// Classes of the validation or test split whose examples look like another class in training.
namespace tapestry {
namespace {

// What was read of all splits, with one label for each example.
struct Labeled {
  std::vector<Array> examples{};
  std::vector<std::int32_t> labels{};
};

void read_labeled(const Dataset& data, Labeled& into) {
  constexpr std::int64_t most_examples = 5000, most_numbers = 4'000'000;
  const Array first = reading_of(data.batch(std::vector<std::int64_t>{0}));
  const std::int64_t most = most_numbers / std::max<std::int64_t>(1, first.size());
  for (const std::int64_t example :
       evenly(data.size(), std::clamp<std::int64_t>(most, 1, most_examples))) {
    const Batch one = data.batch(std::vector{example});
    const auto targets = one.targets.values<std::int32_t>();
    const auto label = std::ranges::find_if(targets, [](auto x) { return x != ignored_target; });
    if (label == targets.end()) continue;
    into.labels.push_back(*label);
    into.examples.push_back(reading_of(one));
  }
}

// The mean of a class's rows, and how far it is from the true one (its standard error).
struct ClassMean {
  double examples = 0, error = 0;
  std::vector<double> mean{};
  double distance(const ClassMean& other) const {
    double sum = 0;
    for (std::size_t d = 0; d < mean.size(); ++d) sum += std::pow(mean[d] - other.mean[d], 2);
    return std::sqrt(sum);
  }
};
using ClassMeans = std::map<std::int32_t, ClassMean>;

ClassMeans class_means(const Array& rows, std::span<const std::int32_t> labels,
                       std::size_t first_row) {
  const auto D = static_cast<std::size_t>(rows.dim(1));
  ClassMeans classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ClassMean& own = classes[labels[i]];
    own.mean.resize(D);
    ++own.examples;
    for (const float x : rows.values<float>().subspan((first_row + i) * D, D)) own.error += x * x;
    for (std::size_t d = 0; d < D; ++d)
      own.mean[d] += rows.values<float>()[(first_row + i) * D + d];
  }
  for (auto& [label, own] : classes) {
    for (double& x : own.mean) x /= own.examples;
    for (const double x : own.mean) own.error -= own.examples * x * x;
    own.error = std::sqrt(std::max(0.0, own.error) / (own.examples * own.examples));
  }
  return classes;
}

// Returns the training class that this class of a split looks like, if it is not its own: its mean
// is far from its own class's, by more than chance, and less than half as far from the other's.
std::optional<std::int32_t> looks_like(std::int32_t label, const ClassMean& of_split,
                                       const ClassMeans& training) {
  constexpr double least_errors = 5, least_examples = 3;
  if (!training.contains(label) || of_split.examples < least_examples) return std::nullopt;
  const double own = of_split.distance(training.at(label));
  if (own < least_errors * of_split.error) return std::nullopt;
  const auto nearest = std::ranges::min_element(
      training, {}, [&](const auto& one) { return of_split.distance(one.second); });
  if (of_split.distance(nearest->second) > own / 2) return std::nullopt;
  return nearest->first;
}

std::optional<Fault> exchanged_in(const std::string& name, const ClassMeans& split,
                                  const ClassMeans& training) {
  std::map<std::int32_t, std::int32_t> moved;
  for (const auto& [label, mean] : split)
    if (const auto other = looks_like(label, mean, training)) moved[label] = *other;
  for (const auto& [label, other] : moved)
    if (moved.contains(other))
      return Fault{
          fmt::format("the {} examples of the {} split with label {} look like label {} in "
                      "training, and the {} with label {} like label {}",
                      split.at(label).examples, name, label, other, split.at(other).examples, other,
                      moved.at(other)),
          "labels were exchanged, or the splits were numbered by different lists",
          "compare examples of both splits; if the classes are so by nature: --skip targets"};
  return std::nullopt;
}

}  // namespace

std::optional<Fault> exchanged_labels(TrainingUnderTest& under_test) {
  if (!under_test.training_statistics().labels) return std::nullopt;
  Labeled all;
  read_labeled(under_test.task().training_data(), all);
  const std::size_t of_training = all.labels.size();
  std::vector<std::size_t> ends;
  for (const EvaluationSplit& split : under_test.evaluation_splits()) {
    read_labeled(*split.data, all);
    ends.push_back(all.labels.size());
  }
  if (of_training == 0) return std::nullopt;
  Array rows = rows_of(all.examples);
  standardize(rows);
  const std::span<const std::int32_t> labels = all.labels;
  const ClassMeans training = class_means(rows, labels.first(of_training), 0);
  std::size_t begin = of_training;
  for (std::size_t s = 0; s < ends.size(); begin = ends[s++])
    if (auto fault = exchanged_in(under_test.evaluation_splits()[s].name,
                                  class_means(rows, labels.subspan(begin, ends[s] - begin), begin),
                                  training))
      return fault;
  return std::nullopt;
}

}  // namespace tapestry
