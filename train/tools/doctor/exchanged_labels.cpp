#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <xtensor/xmath.hpp>
#include <xtensor/xnorm.hpp>
#include <xtensor/xview.hpp>

#include "autograd/xtensor.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/dependence.hpp"

// A check for classes of the validation or test split whose examples resemble another class in
// training.
namespace tapestry {
namespace {

// The examples that were read from all splits, and their labels.
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

// The mean of a class's rows, and its standard error.
struct ClassMean {
  double examples = 0, error = 0;
  xt::xtensor<double, 1> mean{};
  double distance(const ClassMean& other) const { return xt::norm_l2(mean - other.mean)(); }
};
using ClassMeans = std::map<std::int32_t, ClassMean>;

ClassMeans class_means(const Array& rows, std::span<const std::int32_t> labels,
                       std::size_t first_row) {
  std::map<std::int32_t, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(first_row + i);
  const auto all = xtensor_view<float, 2>(rows);
  ClassMeans classes;
  for (const auto& [label, of_class] : members) {
    const xt::xtensor<double, 2> own = xt::view(all, xt::keep(of_class), xt::all());
    const xt::xtensor<double, 1> mean = xt::mean(own, {0});
    const auto examples = static_cast<double>(of_class.size());
    classes[label] = {examples, xt::norm_l2(own - mean)() / examples, mean};
  }
  return classes;
}

// A class of a split of which a part resembles another class of the training data.
struct MovedClass {
  std::int32_t like = 0;
  double share = 0;  // fraction of the class's examples
};

// Returns the class toward which the mean of this class has moved, if it moved by more than chance
// and not as far in other directions. Examples of another class move the mean toward that class, by
// their fraction of the distance.
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
    const double along = xt::sum((of_split.mean - own.mean) * (mean.mean - own.mean))() / between;
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
          "compare examples of both splits; if the data are correct: --skip targets"};
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
