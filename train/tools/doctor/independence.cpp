#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/observations.hpp"

// Checks that outputs do not depend on other examples or on later tokens.
namespace tapestry {
namespace {

struct ObservedLoss {
  double objective = 0;
  Activations activations{};
};

// Computes the objective of examples in float64. `seen` is filled in place, because an observer
// cannot be moved.
void observe(TrainingUnderTest& under_test, Examples examples, ObservedLoss& seen) {
  examples.batch = in_float64(std::move(examples.batch));
  seen.objective = quiet_loss(under_test.task(), under_test.config(), examples).objective.item();
}

std::string first_op_text(const std::optional<std::string>& where) {
  return where ? ", first in " + *where : "";
}

// Returns the batch with other tokens as inputs after position `last`, in the range of its tokens.
Batch with_other_future(Batch batch, std::int64_t last) {
  const std::int64_t T = batch.inputs.dim(1);
  batch.inputs = batch.inputs.clone();
  const auto tokens = batch.inputs.mutable_values<std::int32_t>();
  const auto [low, high] = std::ranges::minmax(tokens);
  for (std::int64_t row = 0; row < std::ssize(tokens); row += T)
    for (std::int64_t t = last + 1; t < T; ++t)
      tokens[row + t] = low + (tokens[row + t] - low + 1) % (high - low + 1);
  return batch;
}

// Returns the batch with only the targets at positions 0 to `last`.
Batch with_targets_until(Batch batch, std::int64_t last) {
  const std::int64_t T = batch.targets.dim(1);
  batch.targets = batch.targets.clone();
  const auto targets = batch.targets.mutable_values<std::int32_t>();
  for (std::int64_t i = 0; i < std::ssize(targets); ++i)
    if (i % T > last) targets[i] = ignored_target;
  return batch;
}

// Returns the first position with a target, the middle one, and the last one that has later inputs.
std::vector<std::int64_t> places_to_check(const Batch& batch) {
  const std::int64_t T = batch.targets.dim(1);
  const auto targets = batch.targets.values<std::int32_t>();
  std::set<std::int64_t> places;
  for (std::int64_t i = 0; i < std::ssize(targets); ++i)
    if (targets[i] != ignored_target && i % T + 1 < T) places.insert(i % T);
  const std::vector<std::int64_t> all(places.begin(), places.end());
  if (all.empty()) return {};
  places = {all.front(), all[all.size() / 2], all.back()};
  return {places.begin(), places.end()};
}

// A position whose loss depends on later inputs, and the first op whose output does.
struct FutureDependence {
  std::int64_t place;
  double before, after;
  std::optional<std::string> where;
};

std::optional<FutureDependence> future_dependence(TrainingUnderTest& under_test,
                                                  const Examples& examples,
                                                  const std::vector<std::int64_t>& places) {
  const std::int64_t T = examples.batch.inputs.dim(1);
  for (const std::int64_t last : places) {
    Examples as_is = examples;
    as_is.batch = with_targets_until(examples.batch, last);
    Examples changed = as_is;
    changed.batch = with_other_future(as_is.batch, last);
    ObservedLoss one;
    observe(under_test, as_is, one);
    ObservedLoss other;
    observe(under_test, changed, other);
    if (relative_difference(one.objective, other.objective) > rounding_in_float64)
      return FutureDependence{
          last, one.objective, other.objective,
          first_difference(one.activations, other.activations, {.places = T, .last = last})};
  }
  return std::nullopt;
}

}  // namespace

// Checks that the objective of a batch is the sum of the objectives of its examples.
CheckResult check_neighbors(TrainingUnderTest& under_test) {
  const Dataset& data = under_test.task().training_data();
  const Examples together = under_test.training_examples(4);
  const auto count = std::ssize(together.numbers);
  if (count < 2) return {.said = "the data set has only one example", .skipped = true};
  under_test.reset_in_float64();
  ObservedLoss batch;
  observe(under_test, together, batch);
  double alone = 0;
  std::optional<std::string> where;
  for (const std::int64_t number : together.numbers) {
    ObservedLoss one;
    observe(under_test, examples_of(data, {number}), one);
    if (number == together.numbers.front())
      where = first_difference(one.activations, batch.activations);
    alone += one.objective;
  }
  const double difference = relative_difference(alone, batch.objective);
  if (difference <= rounding_in_float64)
    return {.said = fmt::format("{} examples have the same loss in one batch and alone (relative "
                                "difference {:.0e})",
                                count, difference)};
  return {.fault = Fault{
              fmt::format("{} examples have the loss {:.6g} in one batch and {:.6g} alone{}", count,
                          batch.objective, alone, first_op_text(where)),
              "an output depends on other examples of its batch: a norm over the batch, or a wrong "
              "axis",
              "compute each example by itself; sum over examples only in the loss"}};
}

CheckResult check_future(TrainingUnderTest& under_test) {
  const Examples examples = under_test.training_examples(2);
  if (!has_token_targets(examples.batch) || share_of_next_tokens(examples.batch) <= 0.5)
    return {.said = "the targets are not the next tokens of the inputs", .skipped = true};
  under_test.reset_in_float64();
  const std::vector<std::int64_t> places = places_to_check(examples.batch);
  const auto found = future_dependence(under_test, examples, places);
  if (!found)
    return {.said = fmt::format("the losses at positions 0 to {} do not depend on later inputs",
                                fmt::join(places, ", 0 to "))};
  return {.fault = Fault{
              fmt::format("the loss at positions 0 to {} changes from {:.8g} to {:.8g} with later "
                          "inputs{}",
                          found->place, found->before, found->after, first_op_text(found->where)),
              "an output depends on later inputs: the causal mask is missing or off by one",
              "position t may attend only to positions 0 to t"}};
}

}  // namespace tapestry
