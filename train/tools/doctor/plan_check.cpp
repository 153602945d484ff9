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
double measured_step_s(TrainingUnderTest& under_test) {
  Steps steps(under_test);
  const Examples examples = under_test.training_examples(under_test.config()[key::batch_size]);
  const auto step = [&] { steps.with_dropout(examples, usual_rate); };
  step();
  const double seconds = time_once(step);
  under_test.begin_anew();
  return seconds;
}

// At its full size where that takes seconds, and has room beside the patient's own model.
std::string time_text(TrainingPlan plan, TrainingUnderTest& under_test) {
  under_test.begin_anew();
  const double step_s = measured_step_s(under_test) * under_test.steps_in_a_given_one();
  if (step_s > longest_measured_s || resident_bytes() + plan.memory.held > plan.machine)
    return fmt::format("{} steps of about {}, reckoned from one of {} examples, in all {}",
                       plan.run_length.steps, duration_text(step_s),
                       under_test.config()[key::batch_size],
                       duration_text(static_cast<double>(plan.run_length.steps) * step_s));
  measure(plan, under_test.config_with()({}), seconds_to_measure);
  if (!plan.throughput) return "its steps were not measured: " + plan.unmeasured;
  return fmt::format("{} steps of {}, in all about {}", plan.run_length.steps,
                     duration_text(plan.throughput->step_s),
                     duration_text(seconds_of(plan.run_length, *plan.throughput)));
}

}  // namespace

CheckResult verdict_on(const TrainingPlan& plan) {
  CheckResult result{.said = fmt::format("{} of {}, {} of disk", bytes_text(plan.needs()),
                                         bytes_text(plan.machine), bytes_text(plan.disk))};
  if (!plan.fits())
    result.fault = Fault{fmt::format("the training needs {} of memory, and may have {}",
                                     bytes_text(plan.needs()), bytes_text(plan.machine)),
                         "the model, its batch or its context is too large for this machine",
                         advice_of(plan.smallest)};
  else if (plan.disk > plan.disk_free)
    result.fault =
        Fault{fmt::format("its folder takes {}, and {} are free", bytes_text(plan.disk),
                          bytes_text(plan.disk_free)),
              "the disk is too small, or full", "free some, or train elsewhere: --out DIR"};
  return result;
}

// Of the config as it was given, at its full size.
CheckResult check_plan(TrainingUnderTest& under_test) {
  const TrainingPlan plan = under_test.plan()
                                ? *under_test.plan()
                                : plan_training(under_test.config_with(), {.seconds = 0});
  CheckResult result = verdict_on(plan);
  if (!result.fault) result.said += "; " + time_text(plan, under_test);
  return result;
}

}  // namespace tapestry
