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

// Part of a split's class that looks like another class of the training data.
struct MovedClass {
  std::int32_t like = 0;
  double share = 0;  // of its examples
};

double dot_of_differences(const ClassMean& a, const ClassMean& b, const ClassMean& from) {
  double sum = 0;
  for (std::size_t d = 0; d < from.mean.size(); ++d)
    sum += (a.mean[d] - from.mean[d]) * (b.mean[d] - from.mean[d]);
  return sum;
}

// Examples of another class move the mean of a class toward that class, by their share of the
// distance. Returns the class with the largest share, if the mean moved that way by more than
// chance and not as far in other directions.
std::optional<MovedClass> find_moved(std::int32_t label, const ClassMean& of_split,
                                     const ClassMeans& training) {
  constexpr double least_errors = 5, least_examples = 3, least_share = 0.3;
  if (!training.contains(label) || of_split.examples < least_examples) return std::nullopt;
  const ClassMean& own = training.at(label);
  const double moved = of_split.distance(own);
  if (moved < least_errors * of_split.error) return std::nullopt;
  std::optional<MovedClass> best;
  for (const auto& [other, mean] : training) {
    const double between = mean.distance(own);
    if (other == label || between == 0) continue;
    const double along = dot_of_differences(of_split, mean, own) / between;
    const double aside = std::sqrt(std::max(0.0, moved * moved - along * along));
    const double share = along / between;
    if (share >= least_share && aside <= moved / 2 && (!best || share > best->share))
      best = MovedClass{.like = other, .share = std::min(1.0, share)};
  }
  return best;
}

std::optional<Fault> exchanged_in(const std::string& name, const ClassMeans& split,
                                  const ClassMeans& training) {
  std::map<std::int32_t, MovedClass> moved;
  for (const auto& [label, mean] : split)
    if (const auto found = find_moved(label, mean, training)) moved[label] = *found;
  for (const auto& [label, one] : moved)
    if (const auto other = moved.find(one.like); other != moved.end())
      return Fault{
          fmt::format("about {:.0f} % of the {} examples of the {} split with label {} look like "
                      "label {} in training, and about {:.0f} % of the {} with label {} like label "
                      "{}",
                      100 * one.share, split.at(label).examples, name, label, one.like,
                      100 * other->second.share, split.at(one.like).examples, one.like,
                      other->second.like),
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
