#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/doctor/comparison.hpp"
#include "train/doctor/gate.hpp"
#include "train/doctor/steps.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t fewest_to_learn = 2, most_to_learn = 8;
constexpr std::int64_t fewest_steps = 40, most_steps = 640, first_steps = 10;
constexpr double longest_s = 60;
constexpr std::int64_t steps_of_rise = 10;
constexpr double least_room = 0.02;

// What one batch's loss goes to, and what it has to come below.
struct Learnt {
  double first = 0, last = 0, wanted = 0;
  std::int64_t steps = 0;
  bool reached() const { return last < wanted; }
};

// Half way from what a model blind to its inputs reaches to what there is to reach. Where these are
// about one, as of examples of one class, a tenth of the first loss; of an unknown loss half of it.
double wanted_of(const Comparison& seen, double first) {
  if (seen.kind == Comparison::Kind::unknown) return first / 2;
  const double floor = seen.floor(), room = seen.blind_by_place() - floor;
  return room > least_room * (first - floor) ? floor + room / 2 : floor + (first - floor) / 10;
}

double error_of(Patient& patient, const Examples& examples) {
  const Comparison seen = compare_outputs(patient.task(), patient.config(), examples);
  if (seen.kind != Comparison::Kind::unknown) return seen.error();
  return quiet_loss(patient.task(), patient.config(), examples).averages.at("loss").value();
}

// Looks at it after 10 steps, 15, 23, …
Learnt learn(Patient& patient, const Examples& examples, double rate, std::int64_t limit) {
  patient.begin_anew();
  Steps steps(patient);
  Learnt learnt{.first = error_of(patient, examples)};
  learnt.wanted =
      wanted_of(compare_outputs(patient.task(), patient.config(), examples), learnt.first);
  for (std::int64_t look = first_steps; learnt.steps < limit; look += (look + 1) / 2) {
    for (; learnt.steps < std::min(look, limit); ++learnt.steps)
      steps.without_dropout(examples, rate * std::min(1.0, (learnt.steps + 1.0) / steps_of_rise));
    learnt.last = error_of(patient, examples);
    if (learnt.reached() || !std::isfinite(learnt.last)) break;
  }
  return learnt;
}

}  // namespace

// Karpathy 2019: "overfit one batch". At the configured learning rate, or else at usual ones: the
// rate has a gate of its own.
GateVerdict check_one_batch(Patient& patient) {
  const std::int64_t batch = patient.config()[key::batch_size];
  const Examples examples =
      patient.training_examples(std::clamp(batch, fewest_to_learn, most_to_learn));
  const double step_s =
      patient.step_s() * static_cast<double>(examples.numbers.size()) / static_cast<double>(batch);
  const auto limit = static_cast<std::int64_t>(
      std::clamp(longest_s / std::max(1e-6, step_s), double(fewest_steps), double(most_steps)));
  const double configured = patient.config()[key::learning_rate];
  Learnt learnt, first_try;
  double used = 0;
  for (const double rate : {configured, 1e-3, 1e-2, 1e-1}) {
    learnt = learn(patient, examples, used = rate, rate == configured ? limit : limit / 2);
    if (rate == configured) first_try = learnt;
    if (learnt.reached()) break;
  }
  patient.begin_anew();
  const auto course = [&](const Learnt& of) {
    return fmt::format("{} examples, over and over: from {:.4g} to {:.4g} in {} steps",
                       examples.numbers.size(), of.first, of.last, of.steps);
  };
  GateVerdict verdict{
      .said = fmt::format("{} (below {:.4g} is learnt)", course(learnt), learnt.wanted)};
  if (!learnt.reached())
    verdict.fault = Fault{
        fmt::format("{}; below {:.4g}, half of what a model reaches that does not look at its "
                    "inputs, would be learnt",
                    course(first_try), first_try.wanted),
        "the inputs do not reach the outputs, or the model is too small for so little",
        "look at how the model uses its inputs; neither does another learning rate help"};
  else if (used != configured)
    verdict.warnings.push_back(
        fmt::format("at a learning rate of {:.0e}; at {:.1e}, as configured, "
                    "it was not learnt",
                    used, configured));
  return verdict;
}

}  // namespace tapestry
