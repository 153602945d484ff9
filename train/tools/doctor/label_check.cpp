#include <fmt/format.h>

#include <algorithm>

#include "autograd/counted.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/observations.hpp"

// A check that labels and tokens are in the model's range, and that training has all labels of
// other splits.
namespace tapestry {
namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

Array without_content(const Array& array) {
  return array.dtype() == DType::int32 ? Array::zeros(array.shape(), DType::int32) : array;
}

// Returns whether the loss compares each output with an input, as that of an autoencoder does, and
// therefore ignores the labels. The inputs may be augmented.
bool reconstructs(const Comparison& seen, const Batch& batch) {
  return seen.kind != Comparison::Kind::cross_entropy && seen.kind != Comparison::Kind::unknown &&
         seen.targets.size() == batch.inputs.size() && seen.targets.size() != batch.targets.size();
}

std::optional<Fault> out_of_range(const char* what, const Counts& counts, std::int64_t rows) {
  for (const auto& [token, count] : counts)
    if (rows > 0 && (token < 0 || token >= rows))
      return Fault{fmt::format("{} {} occurs {}; the model knows 0 to {}", what, token,
                               counted(count, "time"), rows - 1),
                   "the data were numbered by another list, or from 1 on",
                   "number them from 0 on, or give the model more tokens or classes"};
  return std::nullopt;
}

std::int64_t all_of(const Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& [token, count] : counts) sum += count;
  return sum;
}

// The number of targets of a split that do not occur in training. `complete`: enough of the
// training split was read to be sure.
struct Unseen {
  std::int64_t count;
  bool complete;
};
Unseen unseen_of(TrainingUnderTest& under_test, const DatasetStatistics& split,
                 const Counts& known) {
  Counts missing = split.targets;
  std::erase_if(missing, [&](const auto& one) { return known.contains(one.first); });
  const bool must_read = !missing.empty() && !under_test.training_statistics().whole();
  const bool complete =
      !must_read || read_through(under_test.task().training_data(), [&](const Batch& one) {
        for (const std::int32_t target : one.targets.values<std::int32_t>()) missing.erase(target);
        return !missing.empty();
      });
  return {all_of(missing), complete};
}

// Returns whether all training examples that can be read in some seconds have this label.
bool is_only_label(TrainingUnderTest& under_test, std::int32_t label) {
  bool only = true;
  read_through(under_test.task().training_data(), [&](const Batch& one) {
    only = std::ranges::all_of(one.targets.values<std::int32_t>(), [&](std::int32_t target) {
      return target == label || target == ignored_target;
    });
    return only;
  });
  return only;
}

constexpr double most_unseen = 0.1;
constexpr double balanced = 10;

void compare_labels(const EvaluationSplit& split, TrainingUnderTest& under_test,
                    CheckResult& result) {
  const Unseen unseen =
      unseen_of(under_test, split.statistics, under_test.training_statistics().targets);
  if (unseen.count == 0) return;
  const std::string found = counted(unseen.count, split.name + " example") +
                            (unseen.count == 1 ? " has a label" : " have labels") +
                            " that no training example has";
  if (unseen.complete)
    result.fault =
        Fault{found, "the examples were split without shuffling, as in a file sorted by label",
              "shuffle the examples before they are split"};
  else
    result.warnings.push_back(found + ", among those that were sampled");
}

void examine_labels(TrainingUnderTest& under_test, CheckResult& result) {
  const DatasetStatistics& training = under_test.training_statistics();
  const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [rarest, commonest] = std::ranges::minmax_element(training.targets, by_count);
  result.said = fmt::format("{} with {} to {} each",
                            counted(std::ssize(training.targets), "class", "classes"),
                            rarest->second, counted(commonest->second, "example"));
  if (training.targets.size() == 1 && is_only_label(under_test, rarest->first))
    result.fault = Fault{fmt::format("all training examples have the label {}", rarest->first),
                         "the labels were not read, or the data have one class",
                         "add examples of every class"};
  for (const EvaluationSplit& split : under_test.evaluation_splits())
    if (!result.fault) compare_labels(split, under_test, result);
  if (result.fault) return;
  if (double(commonest->second) >= balanced * double(rarest->second))
    result.warnings.push_back(fmt::format(
        "label {0} is {1:.0f} times as frequent as label {2} (expected less than {3:.0f} "
        "times): always predicting {0} is right for {4:.0f} % of the examples",
        commonest->first, ratio(commonest->second, rarest->second), rarest->first, balanced,
        100 * ratio(commonest->second, all_of(training.targets))));
}

void compare_tokens(const EvaluationSplit& split, TrainingUnderTest& under_test,
                    const Counts& known, CheckResult& result) {
  const Unseen unseen = unseen_of(under_test, split.statistics, known);
  const double part = ratio(unseen.count, all_of(split.statistics.targets));
  const std::string found =
      fmt::format("{:.3g} % of the tokens of the {} split do not occur in training{}", 100 * part,
                  split.name, unseen.complete ? "" : ", which was sampled");
  if (part > most_unseen && unseen.complete)
    result.fault = Fault{found, "the splits are of different kinds of text",
                         "shuffle the data before they are split, or train on more"};
  else if (unseen.count > 0)
    result.warnings.push_back(
        fmt::format("{} (more than {:.0f} % is an error)", found, 100 * most_unseen));
}

void examine_tokens(TrainingUnderTest& under_test, CheckResult& result) {
  const DatasetStatistics& training = under_test.training_statistics();
  Counts known = training.inputs;
  known.insert(training.targets.begin(), training.targets.end());
  result.said = counted(std::ssize(known), "different token") + " in " + training.coverage();
  for (const EvaluationSplit& split : under_test.evaluation_splits())
    if (!result.fault) compare_tokens(split, under_test, known, result);
}

}  // namespace

CheckResult check_labels(TrainingUnderTest& under_test) {
  const DatasetStatistics& training = under_test.training_statistics();
  if (training.targets.empty()) return {.said = "the targets are numbers", .skipped = true};
  Examples one = under_test.training_examples(1);
  one.batch.inputs = without_content(one.batch.inputs);
  one.batch.targets = without_content(one.batch.targets);
  const Comparison seen = compare_outputs(under_test.task(), under_test.config(), one);
  if (reconstructs(seen, one.batch))
    return {.said = "the loss compares the outputs with the inputs, not with labels",
            .skipped = true};
  const std::int64_t classes =
      seen.kind == Comparison::Kind::cross_entropy ? seen.outputs.dim(-1) : 0;
  std::vector<const DatasetStatistics*> splits = {&training};
  for (const EvaluationSplit& split : under_test.evaluation_splits())
    splits.push_back(&split.statistics);
  for (const DatasetStatistics* split : splits) {
    if (auto fault = out_of_range("token", split->inputs, seen.embedded)) return {.fault = fault};
    if (auto fault = out_of_range("target", split->targets, classes)) return {.fault = fault};
  }
  CheckResult result;
  (training.labels ? examine_labels : examine_tokens)(under_test, result);
  return result;
}

}  // namespace tapestry
