#include <new>
#include <stdexcept>
#include <system_error>

#include "train/run/atomic_file.hpp"
#include "train/tools/doctor/check.hpp"

namespace tapestry {

const std::vector<DoctorCheck>& doctor_checks() {
  static const std::vector<DoctorCheck> all = {
      {"shared examples", check_shared_examples},
      {"values", check_values},
      {"labels", check_labels},
      {"targets", check_targets},
      {"first loss", check_first_loss},
      {"gradient", check_gradient},
      {"neighbours", check_neighbours},
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

}  // namespace

Admitted admit(const ConfigWith& config_with, std::int64_t machine) try {
  std::optional<TrainingPlan> plan;
  try {
    plan = plan_training(config_with, {.seconds = 0, .machine = machine});
  } catch (const std::invalid_argument&) {  // a gate will say what of the data does not fit
  }
  if (plan && !plan->fits()) return {.refused = verdict_on(*plan)};
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
  return {.fault = Fault{error.what(), "the model and its data do not fit together",
                         "look at the op that is named, and at what it was given"}};
}

}  // namespace tapestry
