#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "autograd/observe.hpp"
#include "train/doctor/gate.hpp"

// What can be wrong with data before any model sees them.
namespace tapestry {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

// The probability of at least `seen` events where so many are expected: Poisson's, or of many the
// normal one.
double chance_of(std::int64_t seen, double expected) {
  if (expected > 100)
    return std::erfc((static_cast<double>(seen) - 0.5 - expected) / std::sqrt(2 * expected)) / 2;
  double term = std::exp(-expected), below = 0;
  for (std::int64_t i = 0; i < seen; ++i, term *= expected / static_cast<double>(i)) below += term;
  return 1 - below;
}

std::int64_t repeated(const std::vector<std::uint64_t>& fingerprints) {
  std::unordered_map<std::uint64_t, std::int64_t> counts;
  for (const std::uint64_t print : fingerprints) ++counts[print];
  return std::ranges::count_if(fingerprints, [&](auto print) { return counts.at(print) > 1; });
}

constexpr double least_chance = 1e-3;

}  // namespace

// Data that repeat themselves share examples among random splits: as many of one split stand in the
// other as of that other stand in it twice. More is a leak.
GateVerdict check_shared_examples(Patient& patient) {
  const Survey &training = patient.training_survey(), &validation = patient.validation_survey();
  const std::unordered_set<std::uint64_t> known(training.fingerprints.begin(),
                                                training.fingerprints.end());
  const auto shared = std::ranges::count_if(validation.fingerprints,
                                            [&](auto print) { return known.contains(print); });
  const std::int64_t twice = repeated(training.fingerprints);
  const auto read = std::ssize(validation.fingerprints);
  const double expected = share(twice, std::ssize(training.fingerprints)) * double(read);
  GateVerdict verdict{.said = fmt::format("{} to train on, {} to validate on, {} in both",
                                          training.coverage(), validation.coverage(), shared)};
  const std::string found =
      fmt::format("{} of {} validation examples ({:.3g} %) stand in the training data, too", shared,
                  read, 100 * share(shared, read));
  if (shared > expected && chance_of(shared, expected) < least_chance)
    verdict.fault = Fault{
        found,
        fmt::format("the splits were not cut apart: of the training examples {:.3g} % are there "
                    "twice, by which {:.0f} could be expected",
                    100 * share(twice, std::ssize(training.fingerprints)), expected),
        "remove them from one of the splits: what is validated on them was learnt by heart"};
  else if (shared > 0)
    verdict.warnings.push_back(
        fmt::format("{}, as the data repeat themselves: {:.3g} % of the training examples are "
                    "there twice",
                    found, 100 * share(twice, std::ssize(training.fingerprints))));
  return verdict;
}

namespace {

struct Constants {
  std::int64_t count = 0, first = 0;  // places that never change
};
Constants constants_of(const std::vector<float>& low, const std::vector<float>& high) {
  Constants found;
  for (std::size_t i = 0; i < low.size(); ++i)
    if (low[i] == high[i] && found.count++ == 0) found.first = static_cast<std::int64_t>(i);
  return found;
}

std::optional<Fault> constant_fault(const char* what, const Constants& constants,
                                    const std::vector<float>& low) {
  return Fault{
      fmt::format("{} of the {} {} of an example are the same in all of them, as number "
                  "{}, {:.4g}",
                  constants.count, low.size(), what, constants.first, low[constants.first]),
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

}  // namespace

// Some constant numbers are usual, such as the margins of images; half of them are too many.
GateVerdict check_values(Patient& patient) {
  const Survey &training = patient.training_survey(), &validation = patient.validation_survey();
  for (const auto& [split, found] : {std::pair{"training", &training}, {"validation", &validation}})
    if (found->not_finite)
      return {.fault = Fault{fmt::format("of the {} data, {}", split, *found->not_finite),
                             "a number that is missing, or a division by 0 when they were made",
                             "mend or leave out that example: no loss of it is finite"}};
  if (const auto changing = changing_example(patient.task().training_data()))
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
  GateVerdict verdict{
      .said = fmt::format("{} of {} numbers, all finite", training.coverage(), numbers + targets)};
  const bool alone = !patient.training_examples(1).batch.besides.has_value();
  if (!alone || training.fingerprints.size() < 2) return verdict;
  verdict.said += fmt::format(", {} of them constant", inputs.count + wanted.count);
  if (2 * inputs.count > numbers)
    verdict.fault = constant_fault("inputs", inputs, training.low);
  else if (wanted.count > 0)
    verdict.fault = constant_fault("targets", wanted, training.low_target);
  return verdict;
}

namespace {

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

// How many tokens of the one are not in the other.
std::int64_t unseen(const Counts& counts, const Counts& known) {
  std::int64_t sum = 0;
  for (const auto& [token, count] : counts)
    if (!known.contains(token)) sum += count;
  return sum;
}

std::int64_t all_of(const Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& [token, count] : counts) sum += count;
  return sum;
}

constexpr double most_unseen = 0.1;
constexpr double balanced = 10;

void judge_labels(const Survey& training, const Survey& validation, GateVerdict& verdict) {
  const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [rarest, commonest] = std::ranges::minmax_element(training.targets, by_count);
  verdict.said = fmt::format("{} labels, {} to {} examples each", training.targets.size(),
                             rarest->second, commonest->second);
  if (training.targets.size() == 1)
    verdict.fault = Fault{fmt::format("all training examples have the label {}", rarest->first),
                          "the labels were not read, or the data are of one class",
                          "give examples of every class"};
  else if (unseen(validation.targets, training.targets) > 0)
    verdict.fault = Fault{fmt::format("{} validation examples have labels that no training example "
                                      "has",
                                      unseen(validation.targets, training.targets)),
                          "the splits were cut by label, as of a file that is sorted",
                          "shuffle the examples before they are split"};
  else if (double(commonest->second) >= balanced * double(rarest->second))
    verdict.warnings.push_back(fmt::format(
        "label {} is {:.0f} times as frequent as label {} (from {:.0f} on this is said): to say it "
        "always is right in {:.0f} %",
        commonest->first, share(commonest->second, rarest->second), rarest->first, balanced,
        100 * share(commonest->second, all_of(training.targets))));
}

void judge_tokens(const Survey& training, const Survey& validation, GateVerdict& verdict) {
  Counts known = training.inputs;
  known.insert(training.targets.begin(), training.targets.end());
  const std::int64_t new_ones = unseen(validation.targets, known);
  const double part = share(new_ones, all_of(validation.targets));
  verdict.said = fmt::format("{} different tokens in {}", known.size(), training.coverage());
  const std::string found = fmt::format(
      "{:.3g} % of the validation split's tokens are never seen in training", 100 * part);
  if (part > most_unseen)
    verdict.fault = Fault{found, "the splits are of different kinds of text",
                          "shuffle what they are cut from, or train on more"};
  else if (new_ones > 0)
    verdict.warnings.push_back(
        fmt::format("{} (above {:.0f} % this stops)", found, 100 * most_unseen));
}

}  // namespace

GateVerdict check_labels(Patient& patient) {
  const Survey &training = patient.training_survey(), &validation = patient.validation_survey();
  if (training.targets.empty())
    return {.said = "targets are numbers, or are not looked at", .skipped = true};
  Examples one = patient.training_examples(1);
  one.batch.inputs = without_content(one.batch.inputs);
  one.batch.targets = without_content(one.batch.targets);
  WidthWatcher widths;
  quiet_loss(patient.task(), patient.config(), one);
  for (const Survey* split : {&training, &validation}) {
    if (auto fault = out_of_range("token", split->inputs, widths.tokens)) return {.fault = fault};
    if (auto fault = out_of_range("target", split->targets, widths.classes))
      return {.fault = fault};
  }
  GateVerdict verdict;
  (training.labels ? judge_labels : judge_tokens)(training, validation, verdict);
  return verdict;
}

}  // namespace tapestry
