#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/checksum.hpp"
#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/observations.hpp"

namespace tapestry {
namespace {

constexpr double high = 2;             // factor of the loss of a uniform prediction
constexpr double far_below = 0.5;      // factor of the unigram entropy
constexpr double least_evidence = 10;  // total nats of all targets: chance reaches these with e^-10

constexpr std::int64_t least_steps = 40, most_steps = 640, first_steps = 10;  // on one batch
constexpr std::int64_t warmup_of_batch = 10;
constexpr double longest_s = 60, least_range = 0.02;
constexpr double clearly_below = 0.9;  // times the loss of a model that ignores its inputs

// A loss that a model reaches only if it uses its inputs.
struct Threshold {
  double loss = 0;
  const char* meaning = "";
  double ignorant = 0;  // loss of the best model that ignores its inputs; 0 if it is not known
};

// The loss of one batch before and after training on it.
struct Overfitting {
  double first = 0, last = 0;
  Threshold threshold{};
  std::int64_t steps = 0;
  bool reached() const { return last < threshold.loss; }
  bool uses_inputs() const { return last < clearly_below * threshold.ignorant; }
};

// Returns the loss halfway between the best constant outputs and the best outputs. If these are
// about equal, as for examples of one class, returns a tenth of the way from the best outputs to a
// uniform prediction.
Threshold threshold_of(const Comparison& seen, double first) {
  if (seen.kind == Comparison::Kind::unknown) return {first / 2, "half of the initial loss"};
  const double floor = seen.floor(), uniform = seen.uniform();
  const double range = seen.constant_by_place() - floor;
  if (range > least_range * (std::min(first, uniform) - floor))
    return {floor + range / 2,
            "halfway from the lowest loss to that of a model that ignores its inputs",
            floor + range};
  return {floor + (uniform - floor) / 10,
          "a tenth of the way from the lowest loss to that of a uniform prediction"};
}

double error_of(TrainingUnderTest& under_test, const Examples& examples) {
  const Comparison seen = compare_outputs(under_test.task(), under_test.config(), examples);
  if (seen.kind != Comparison::Kind::unknown) return seen.error();
  return quiet_loss(under_test.task(), under_test.config(), examples).averages.at("loss").value();
}

// The learning rate, optimizer and number of steps of an attempt to overfit one batch.
struct Attempt {
  double rate;
  std::string optimizer;
  std::int64_t most_steps;
};

// Trains on one batch until the loss is below the threshold or not finite, or for
// attempt.most_steps steps. The loss is tested after 10 steps, 15, 23, …
Overfitting overfit(TrainingUnderTest& under_test, const Examples& examples,
                    const Attempt& attempt) {
  under_test.reset();
  TrialTraining training(under_test, examples, attempt.optimizer);
  Overfitting found{.first = error_of(under_test, examples)};
  found.threshold =
      threshold_of(compare_outputs(under_test.task(), under_test.config(), examples), found.first);
  for (std::int64_t next = first_steps; found.steps < attempt.most_steps; next += (next + 1) / 2) {
    for (; found.steps < std::min(next, attempt.most_steps); ++found.steps)
      training.step(attempt.rate * std::min(1.0, (found.steps + 1.0) / warmup_of_batch));
    found.last = error_of(under_test, examples);
    if (found.reached() || !std::isfinite(found.last)) break;
  }
  return found;
}

// Hashes of an example's inputs and targets, and the model's outputs.
struct ExampleReading {
  std::uint64_t inputs, targets;
  Array outputs;
};

ExampleReading read_alone(TrainingUnderTest& under_test, std::int64_t number) {
  const Examples one = examples_of(under_test.task().training_data(), {number});
  Batch inputs = one.batch;
  inputs.targets = Array::zeros({1}, DType::int32);
  Checksum targets;
  targets.add(one.batch.targets);
  return {fingerprint(inputs), targets.value(),
          compare_outputs(under_test.task(), under_test.config(), one).outputs};
}

bool are_close(const Array& one, const Array& other) {
  constexpr double rounding = 1e-5;
  if (one.empty() || one.shape() != other.shape()) return false;
  const auto a = one.values<float>(), b = other.values<float>();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(relative_difference(a[i], b[i]) <= rounding))
      return false;  // also if a value is not finite
  return true;
}

// Returns "examples 3 and 5", two whose inputs and targets differ, but not the outputs of the
// model;
// "" if there are none.
std::string indistinguishable(TrainingUnderTest& under_test, const Examples& examples) {
  std::vector<ExampleReading> all;
  for (const std::int64_t number : examples.numbers) all.push_back(read_alone(under_test, number));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (all[i].inputs != all[j].inputs && all[i].targets != all[j].targets &&
          are_close(all[i].outputs, all[j].outputs))
        return fmt::format("examples {} and {}", examples.numbers[j], examples.numbers[i]);
  return "";
}

// Returns the setting that fixes some of the weights, which limits what the others can learn; "" if
// all are trained.
std::string limited_by(const Config& config) {
  if (const std::int64_t rank = config[key::adapter_rank]; rank > 0)
    return fmt::format("{} = {}", key::adapter_rank.name, rank);
  return config[key::trainable].empty() ? "" : key::trainable.name;
}

// Returns the number of class targets that are not ignored.
double counted_targets(const Comparison& seen) {
  const auto targets = seen.targets.values<std::int32_t>();
  return static_cast<double>(std::ssize(targets) - std::ranges::count(targets, ignored_target));
}

Fault not_overfitted(const std::string& found, const std::string& alike) {
  if (alike.empty())
    return {found, "the outputs do not depend on the inputs, or the model is too small",
            "find the layer that ignores its inputs; Adam and other learning rates do not help"};
  return {
      fmt::format("{}; {} differ in inputs and targets, but have the same outputs", found, alike),
      "the model ignores what distinguishes these examples",
      "use inputs or layers that keep the difference; avoid a mean over constants"};
}

}  // namespace

// Checks the initial loss (Karpathy 2019, "A Recipe for Training Neural Networks": "verify loss @
// init").
CheckResult check_first_loss(TrainingUnderTest& under_test) {
  under_test.reset();
  constexpr std::int64_t most = 64;
  const Examples examples = under_test.training_examples(
      under_test.step_s() > 0.1 ? under_test.config()[key::batch_size] : most);
  const Comparison seen = compare_outputs(under_test.task(), under_test.config(), examples);
  const MetricSum loss =
      quiet_loss(under_test.task(), under_test.config(), examples).averages.at("loss");
  if (!std::isfinite(loss.value()))
    return {.fault = Fault{fmt::format("the initial loss is {}", loss.value()),
                           "a division by 0, or the logarithm of 0",
                           "--set train.check_finite=true names the op"}};
  if (seen.kind == Comparison::Kind::unknown)
    return {.said = fmt::format("{:.4g}; this check does not know the last op of the loss",
                                loss.value()),
            .skipped = true};
  const double error = seen.error(), uniform = seen.uniform(), constant = seen.constant();
  const bool of_classes = seen.kind == Comparison::Kind::cross_entropy;
  const bool is_untrained = under_test.config()[key::from].empty();
  const char* unit = seen.kind == Comparison::Kind::squared_error ? "" : " nats";
  CheckResult result{
      .said =
          fmt::format("initial loss {:.4g}{} (uniform prediction: {:.4g}; {}: {:.4g})", error, unit,
                      uniform, of_classes ? "unigram entropy" : "best constant", constant)};
  if (is_untrained && error > high * uniform)
    result.warnings.push_back(fmt::format(
        "{:.3g} times the loss of a uniform prediction (expected at most {:.0f} times): "
        "the initial weights are large",
        error / uniform, high));
  if (is_untrained && of_classes && error < far_below * constant &&
      constant * counted_targets(seen) > least_evidence)
    result.fault = Fault{
        fmt::format("the initial loss is {:.4g}{}, far below the entropy of the targets, {:.4g}",
                    error, unit, constant),
        "the model has access to the targets", "check whether the inputs contain the targets"};
  else if (of_classes && std::abs(loss.value() - error) > 0.1 * error)
    result.fault =
        Fault{fmt::format(
                  "the reported loss is {:.4g}, but the outputs have a loss of {:.4g}{} per target",
                  loss.value(), error, unit),
              "the reported mean is not divided by the number of targets",
              "Batch::count must be the number of targets that are not ignored"};
  return result;
}

// Checks that one batch can be overfitted (Karpathy 2019: "overfit one batch"), by the configured
// optimizer and learning rate, or else by Adam at usual rates: the learning rate has a check of its
// own.
CheckResult check_one_batch(TrainingUnderTest& under_test) {
  const std::int64_t batch = under_test.config()[key::batch_size];
  const Examples examples = under_test.training_examples(std::clamp<std::int64_t>(batch, 2, 8));
  const double step_s = under_test.step_s() * static_cast<double>(examples.numbers.size()) /
                        static_cast<double>(batch);
  const auto most = static_cast<std::int64_t>(
      std::clamp(longest_s / std::max(1e-6, step_s), double(least_steps), double(most_steps)));
  const double configured = under_test.config()[key::learning_rate];
  const std::string optimizer = under_test.config()[key::optimizer];
  std::vector<Attempt> attempts = {{configured, optimizer, most}};
  for (const double rate : {usual_rate, 10 * usual_rate, 100 * usual_rate})
    attempts.push_back({rate, "adam", most / 2});
  Overfitting last, first_try;
  std::size_t tried = 0;
  bool uses_inputs = false;
  for (; tried < attempts.size() && !last.reached(); ++tried) {
    last = overfit(under_test, examples, attempts[tried]);
    uses_inputs = uses_inputs || last.uses_inputs();
    if (tried == 0) first_try = last;
  }
  const Attempt& used = attempts[tried - 1];
  under_test.reset();
  const auto text = [&](const Overfitting& of) {
    return fmt::format("the loss of one batch of {} goes from {:.4g} to {:.4g} in {} steps",
                       examples.numbers.size(), of.first, of.last, of.steps);
  };
  CheckResult result{
      .said = fmt::format("{} (expected below {:.4g})", text(last), last.threshold.loss)};
  if (last.reached() && (tried == 1 || optimizer.starts_with("adam")))
    under_test.record_overfitting_rate(used.rate);
  if (!last.reached()) {
    const std::string found = fmt::format("{}; expected below {:.4g}, {}", text(first_try),
                                          first_try.threshold.loss, first_try.threshold.meaning),
                      alike = indistinguishable(under_test, examples),
                      limit = limited_by(under_test.config());
    if (alike.empty() && !limit.empty())
      result.warnings.push_back(
          fmt::format("{}: with {} too few weights may be trained", found, limit));
    else if (alike.empty() && uses_inputs)
      result.warnings.push_back(fmt::format("{}: the model may be too small", found));
    else
      result.fault = not_overfitted(found, alike);
  } else if (tried > 1) {
    result.warnings.push_back(
        fmt::format("only with {} at learning rate {:.0e}, not with {} at {:.1e}", used.optimizer,
                    used.rate, optimizer, configured));
  }
  return result;
}

}  // namespace tapestry
