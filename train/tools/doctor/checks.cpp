#include <fmt/ranges.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "autograd/gradcheck.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"
#include "train/run/atomic_file.hpp"
#include "train/tools/doctor/check.hpp"

// The list of checks, the function that runs them, and the checks of gradients, memory and disk.
namespace tapestry {

const std::vector<DoctorCheck>& doctor_checks() {
  static const std::vector<DoctorCheck> all = {
      {"shared examples", check_shared_examples},
      {"values", check_values},
      {"labels", check_labels},
      {"targets", check_targets},
      {"first loss", check_first_loss},
      {"gradient", check_gradient},
      {"neighbors", check_neighbors},
      {"future", check_future},
      {"layers", check_layers},
      {"one batch", check_one_batch},
      {"learning rate", check_learning_rate},
      {"plan", check_plan},
      {"threads", check_threads},
      {"resume", check_resume},
  };
  return all;
}

namespace {

Fault out_of_memory(const std::bad_alloc& error) {
  return {error.what(), "the model or its batch is too large for this machine",
          "lower train.batch_size, or raise train.micro_batches"};
}

// Compares a plan with the memory and disk of the machine.
CheckResult compare_with_machine(const TrainingPlan& plan) {
  CheckResult result{
      .said = fmt::format(
          "{} of {} of memory and {} of disk{} for {} steps; `tapestry plan` measures the "
          "time",
          bytes_text(plan.needs()), bytes_text(plan.machine), bytes_text(plan.disk),
          plan.disk_free ? "" : " (the free space is unknown)", plan.run_length.steps)};
  if (!plan.fits())
    result.fault = Fault{
        fmt::format("the training needs {} of memory; {} are available", bytes_text(plan.needs()),
                    bytes_text(plan.machine)),
        "the model, its batch or its context is too large for this machine",
        plan.smallest
            ? fmt::format("--set {}: {}", fmt::join(plan.smallest->overrides, " --set "),
                          plan.smallest->cost)
            : "no change that keeps the results makes the training fit; use a smaller model or "
              "batch"};
  else if (plan.disk_free && plan.disk > *plan.disk_free)
    result.fault =
        Fault{fmt::format("the run's folder needs {} of disk; {} are free", bytes_text(plan.disk),
                          bytes_text(*plan.disk_free)),
              "the disk is too small, or full", "free space, or choose another disk: --out DIR"};
  return result;
}

}  // namespace

Admitted admit(const ConfigWith& config_with, std::int64_t machine) try {
  std::optional<TrainingPlan> plan;
  try {
    plan = plan_training(config_with, {.seconds = 0, .machine = machine});
  } catch (const std::invalid_argument&) {  // a later check reports the fault of the data
  }
  if (plan && !plan->fits()) return {.refused = compare_with_machine(*plan)};
  return {.under_test = std::make_unique<TrainingUnderTest>(config_with, std::move(plan))};
} catch (const std::bad_alloc& error) {
  return {.refused = {.fault = out_of_memory(error)}};
}

CheckResult examine(const DoctorCheck& check, TrainingUnderTest& under_test) try {
  return check.examine(under_test);
} catch (const InputError&) {
  throw;
} catch (const FileError&) {
  throw;
} catch (const std::system_error&) {
  throw;
} catch (const std::bad_alloc& error) {
  return {.fault = out_of_memory(error)};
} catch (const std::exception& error) {
  return {
      .fault = Fault{
          error.what(), "the model and its data do not fit together, or the training diverges",
          "compare the shapes that the named op takes with the given ones; for numbers that are "
          "not finite: --set train.check_finite=true names the op"}};
}

CheckResult check_gradient(TrainingUnderTest& under_test) {
  under_test.reset_in_float64();
  const auto objective = objective_in_float64(under_test.task(), under_test.config());
  const std::vector<Parameter*> parameters = under_test.parameters();
  const GradcheckResult result = gradcheck_together(objective, parameters);
  if (result.passed)
    return {.said = fmt::format("{} parameters agree with finite differences in float64 (relative "
                                "error {:.0e})",
                                parameters.size(), result.error)};
  return {.fault = Fault{
              fmt::format("the gradient differs from finite differences in float64 by {:.0e} of "
                          "its norm; the last wrong parameter is {}",
                          result.error, result.name),
              "the backward pass of an op is wrong: one that reads this parameter, or a later op "
              "before the next parameter",
              "check each parameter with `tapestry gradcheck CONFIG`, and the ops there against "
              "their formulas"}};
}

// Plans the config at its full size.
CheckResult check_plan(TrainingUnderTest& under_test) {
  const TrainingPlan plan = under_test.plan()
                                ? *under_test.plan()
                                : plan_training(under_test.config_with(), {.seconds = 0});
  return compare_with_machine(plan);
}

}  // namespace tapestry
