#include <fmt/ranges.h>

#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/steps.hpp"
#include "train/trainer/status_line.hpp"

namespace tapestry {
namespace {

constexpr double seconds_to_measure = 1;
constexpr double longest_measured_s = 2;  // a step

std::string advice_of(const std::optional<Change>& change) {
  if (!change)
    return "no change that keeps what is learnt makes it fit: a smaller model or batch would";
  return fmt::format("--set {}: {}", fmt::join(change->overrides, " --set "), change->cost);
}

// As it is examined; the first step makes buffers.
double measured_step_s(Patient& patient) {
  Steps steps(patient);
  const Examples examples = patient.training_examples(patient.config()[key::batch_size]);
  const auto step = [&] { steps.with_dropout(examples, usual_rate); };
  step();
  const double seconds = time_once(step);
  patient.begin_anew();
  return seconds;
}

// At its full size where that takes seconds, and has room beside the patient's own model.
std::string time_text(TrainingPlan plan, Patient& patient) {
  patient.begin_anew();
  const double step_s = measured_step_s(patient) * patient.steps_in_a_given_one();
  if (step_s > longest_measured_s || resident_bytes() + plan.memory.held > plan.machine)
    return fmt::format("{} steps of about {}, reckoned from one of {} examples, in all {}",
                       plan.course.steps, duration_text(step_s), patient.config()[key::batch_size],
                       duration_text(static_cast<double>(plan.course.steps) * step_s));
  measure(plan, patient.config_with()({}), seconds_to_measure);
  if (!plan.pace) return "its steps were not measured: " + plan.unmeasured;
  return fmt::format("{} steps of {}, in all about {}", plan.course.steps,
                     duration_text(plan.pace->step_s),
                     duration_text(seconds_of(plan.course, *plan.pace)));
}

}  // namespace

GateVerdict verdict_on(const TrainingPlan& plan) {
  GateVerdict verdict{.said = fmt::format("{} of {}, {} of disk", bytes_text(plan.needs()),
                                          bytes_text(plan.machine), bytes_text(plan.disk))};
  if (!plan.fits())
    verdict.fault = Fault{fmt::format("the training needs {} of memory, and may have {}",
                                      bytes_text(plan.needs()), bytes_text(plan.machine)),
                          "the model, its batch or its context is too large for this machine",
                          advice_of(plan.smallest)};
  else if (plan.disk > plan.disk_free)
    verdict.fault =
        Fault{fmt::format("its folder takes {}, and {} are free", bytes_text(plan.disk),
                          bytes_text(plan.disk_free)),
              "the disk is too small, or full", "free some, or train elsewhere: --out DIR"};
  return verdict;
}

// Of the config as it was given, at its full size.
GateVerdict check_plan(Patient& patient) {
  const TrainingPlan plan =
      patient.plan() ? *patient.plan() : plan_training(patient.config_with(), {.seconds = 0});
  GateVerdict verdict = verdict_on(plan);
  if (!verdict.fault) verdict.said += "; " + time_text(plan, patient);
  return verdict;
}

}  // namespace tapestry
