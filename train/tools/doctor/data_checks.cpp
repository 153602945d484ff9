#include <fmt/format.h>

#include <algorithm>

#include "autograd/observe.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/outlying_values.hpp"

// What can be wrong with data before any model sees them.
namespace tapestry {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

struct Constants {
  std::int64_t count = 0, first = 0;  // places that never change
  float value = 0;                    // of the first
};
Constants constants_of(const std::vector<float>& low, const std::vector<float>& high) {
  Constants found;
  for (std::size_t i = 0; i < low.size(); ++i)
    if (low[i] == high[i] && found.count++ == 0)
      found.first = static_cast<std::int64_t>(i), found.value = low[i];
  return found;
}

// `one`: of an example; its last axis has the columns of a table.
Fault constant_fault(const char* what, const Constants& constants, const Array& one) {
  const std::int64_t columns = one.dim(-1);
  return Fault{
      fmt::format("{} of the {} {} of an example are the same in all that were read, the first of "
                  "them in column {} of {}: {:.4g}",
                  constants.count, one.size(), what, constants.first % columns + 1, columns,
                  constants.value),
      "they were read from the wrong place, or scaled to nothing",
      "look at the data: print an example's numbers, and mend what reads them"};
}

// One of the first examples that is not what it was when it is read again: random, or written to.
std::optional<std::int64_t> changing_example(const Dataset& data) {
  constexpr std::int64_t looked_at = 16;
  for (std::int64_t i = 0; i < std::min(looked_at, data.size()); ++i)
    if (fingerprint(data.batch(std::vector{i})) != fingerprint(data.batch(std::vector{i})))
      return i;
  return std::nullopt;
}

// Rows of the first table that tokens are looked up in, and classes of the loss; 0: none was seen.
class WidthWatcher final : public Observer {
 public:
  void forward(const ObservedOp& op, const std::vector<Tensor>& inputs) override {
    const std::string name = op.op;
    if (name == "embedding" && tokens == 0) tokens = inputs[0].dim(0);
    if (name == "cross_entropy" && classes == 0) classes = inputs[0].dim(-1);
  }
  std::int64_t tokens = 0, classes = 0;
};

Array without_content(const Array& array) {
  return array.dtype() == DType::int32 ? Array::zeros(array.shape(), DType::int32) : array;
}

std::optional<Fault> out_of_range(const char* what, const Counts& counts, std::int64_t rows) {
  for (const auto& [token, count] : counts)
    if (rows > 0 && (token < 0 || token >= rows))
      return Fault{fmt::format("{} {} stands in the data {} times; the model knows 0 to {}", what,
                               token, count, rows - 1),
                   "the data were numbered by another list, or from 1 on",
                   "number them from 0 on, or give the model as many classes as there are"};
  return std::nullopt;
}

std::int64_t all_of(const Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& [token, count] : counts) sum += count;
  return sum;
}

// Targets of a split that training has none of, or whose like was not met in seconds.
struct Unseen {
  std::int64_t count;
  bool sure;
};
Unseen unseen_of(TrainingUnderTest& under_test, const DatasetStatistics& split,
                 const Counts& known) {
  Counts missing = split.targets;
  std::erase_if(missing, [&](const auto& one) { return known.contains(one.first); });
  const bool to_read = !missing.empty() && !under_test.training_statistics().whole();
  const bool sure =
      !to_read || read_through(under_test.task().training_data(), [&](const Batch& one) {
        for (const std::int32_t target : one.targets.values<std::int32_t>()) missing.erase(target);
        return !missing.empty();
      });
  return {all_of(missing), sure};
}

// Whether no training example has another one, of those that can be read in seconds.
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

void judge_labels_of(const TrainingUnderTest::EvaluationSplit& split, TrainingUnderTest& under_test,
                     CheckResult& result) {
  const Unseen unseen =
      unseen_of(under_test, split.dataset_statistics, under_test.training_statistics().targets);
  if (unseen.count == 0) return;
  const std::string found = fmt::format("{} {} examples have labels that no training example has",
                                        unseen.count, split.name);
  if (unseen.sure)
    result.fault = Fault{found, "the splits were cut by label, as of a file that is sorted",
                         "shuffle the examples before they are split"};
  else
    result.warnings.push_back(found + ", of those that could be read in seconds");
}

void judge_labels(TrainingUnderTest& under_test, CheckResult& result) {
  const DatasetStatistics& training = under_test.training_statistics();
  const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [rarest, commonest] = std::ranges::minmax_element(training.targets, by_count);
  result.said = fmt::format("{} labels, {} to {} examples each", training.targets.size(),
                            rarest->second, commonest->second);
  if (training.targets.size() == 1 && is_only_label(under_test, rarest->first))
    result.fault = Fault{fmt::format("all training examples have the label {}", rarest->first),
                         "the labels were not read, or the data are of one class",
                         "give examples of every class"};
  for (const TrainingUnderTest::EvaluationSplit& split : under_test.evaluation_splits())
    if (!result.fault) judge_labels_of(split, under_test, result);
  if (result.fault) return;
  if (double(commonest->second) >= balanced * double(rarest->second))
    result.warnings.push_back(fmt::format(
        "label {} is {:.0f} times as frequent as label {} (from {:.0f} on this is said): to say it "
        "always is right in {:.0f} %",
        commonest->first, share(commonest->second, rarest->second), rarest->first, balanced,
        100 * share(commonest->second, all_of(training.targets))));
}

void judge_tokens_of(const TrainingUnderTest::EvaluationSplit& split, TrainingUnderTest& under_test,
                     const Counts& known, CheckResult& result) {
  const Unseen unseen = unseen_of(under_test, split.dataset_statistics, known);
  const double part = share(unseen.count, all_of(split.dataset_statistics.targets));
  const std::string found =
      fmt::format("{:.3g} % of the {} split's tokens are never seen in training{}", 100 * part,
                  split.name, unseen.sure ? "" : ", of which a part was read");
  if (part > most_unseen && unseen.sure)
    result.fault = Fault{found, "the splits are of different kinds of text",
                         "shuffle what they are cut from, or train on more"};
  else if (unseen.count > 0)
    result.warnings.push_back(
        fmt::format("{} (above {:.0f} % this stops)", found, 100 * most_unseen));
}

void judge_tokens(TrainingUnderTest& under_test, CheckResult& result) {
  const DatasetStatistics& training = under_test.training_statistics();
  Counts known = training.inputs;
  known.insert(training.targets.begin(), training.targets.end());
  result.said = fmt::format("{} different tokens in {}", known.size(), training.coverage());
  for (const TrainingUnderTest::EvaluationSplit& split : under_test.evaluation_splits())
    if (!result.fault) judge_tokens_of(split, under_test, known, result);
}

}  // namespace

// Some constant numbers are usual, such as the margins of images; half of them are too many.
CheckResult check_values(TrainingUnderTest& under_test) {
  const DatasetStatistics& training = under_test.training_statistics();
  if (std::optional<Fault> fault = outlying_value(under_test)) return {.fault = fault};
  std::vector<std::pair<std::string, const DatasetStatistics*>> splits = {{"training", &training}};
  for (const TrainingUnderTest::EvaluationSplit& split : under_test.evaluation_splits())
    splits.emplace_back(split.name, &split.dataset_statistics);
  for (const auto& [split, found] : splits)
    if (found->not_finite)
      return {.fault = Fault{fmt::format("of the {} data, {}", split, *found->not_finite),
                             "a number that is missing, or a division by 0 when they were made",
                             "mend or leave out that example: no loss of it is finite"}};
  if (const auto changing = changing_example(under_test.task().training_data()))
    return {.fault =
                Fault{fmt::format("example {} of the training data is another one when it is "
                                  "read again",
                                  *changing),
                      "it is drawn, or changed, as it is read: no training of it can be resumed",
                      "draw it by a seed and the example's number"}};
  const std::int64_t numbers = std::ssize(training.low), targets = std::ssize(training.low_target);
  if (numbers + targets == 0)
    return {.said = fmt::format("{}, of tokens alone", training.coverage())};
  const Constants inputs = constants_of(training.low, training.high),
                  wanted = constants_of(training.low_target, training.high_target);
  CheckResult result{
      .said = fmt::format("{} of {} numbers, all finite", training.coverage(), numbers + targets)};
  const Batch one = under_test.training_examples(1).batch;
  if (one.has_auxiliary() || training.fingerprints.size() < 2) return result;
  result.said += fmt::format(", {} of them constant", inputs.count + wanted.count);
  if (2 * inputs.count > numbers)
    result.fault = constant_fault("inputs", inputs, one.inputs);
  else if (wanted.count > 0)
    result.fault = constant_fault("targets", wanted, one.targets);
  return result;
}

CheckResult check_labels(TrainingUnderTest& under_test) {
  const DatasetStatistics& training = under_test.training_statistics();
  if (training.targets.empty())
    return {.said = "targets are numbers, or are not looked at", .skipped = true};
  Examples one = under_test.training_examples(1);
  one.batch.inputs = without_content(one.batch.inputs);
  one.batch.targets = without_content(one.batch.targets);
  WidthWatcher widths;
  quiet_loss(under_test.task(), under_test.config(), one);
  std::vector<const DatasetStatistics*> splits = {&training};
  for (const TrainingUnderTest::EvaluationSplit& split : under_test.evaluation_splits())
    splits.push_back(&split.dataset_statistics);
  for (const DatasetStatistics* split : splits) {
    if (auto fault = out_of_range("token", split->inputs, widths.tokens)) return {.fault = fault};
    if (auto fault = out_of_range("target", split->targets, widths.classes))
      return {.fault = fault};
  }
  CheckResult result;
  (training.labels ? judge_labels : judge_tokens)(under_test, result);
  return result;
}

}  // namespace tapestry
