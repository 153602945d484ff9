#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/plot/figure.hpp"
#include "train/tools/doctor/training_under_test.hpp"

namespace tapestry {

// What is amiss, as a cause and not as one of its consequences: three sentences.
struct Fault {
  std::string found, cause, advice;
};

// What one gate says of a training.
struct CheckResult {
  std::string said{};                   // what was looked at and found, in a few words
  std::vector<std::string> warnings{};  // of what stops nothing
  std::optional<Fault> fault{};         // of what stops here
  std::optional<Figure> figure{};       // that shows it
  bool skipped = false;                 // there is nothing that the gate could look at: `said` why
};

// A question to a training, answered within seconds.
struct DoctorCheck {
  std::string name;
  std::function<CheckResult(TrainingUnderTest&)> examine;
};

// In the order in which they are asked: a fault of one would show in those behind it.
const std::vector<DoctorCheck>& doctor_checks();

// Thrown by a gate that a signal ended, once it has tidied up.
struct Interrupted {};

// A training that can be examined, or else the verdict of the gate `plan` on one that the memory
// does not hold: `machine` bytes, or what this machine has.
struct Admitted {
  std::unique_ptr<TrainingUnderTest> under_test{};
  CheckResult refused{};
};
Admitted admit(const ConfigWith& config_with, std::int64_t machine = 0);

// The gate's verdict. What the model or its data throw is a fault, too; InputError, Interrupted,
// and what the system refuses pass: they say nothing of the training.
CheckResult examine(const DoctorCheck& check, TrainingUnderTest& under_test);

// --- the gates ---

CheckResult check_shared_examples(TrainingUnderTest& under_test);
CheckResult check_values(TrainingUnderTest& under_test);
CheckResult check_labels(TrainingUnderTest& under_test);
CheckResult check_targets(TrainingUnderTest& under_test);
CheckResult check_first_loss(TrainingUnderTest& under_test);
CheckResult check_gradient(TrainingUnderTest& under_test);
CheckResult check_neighbours(TrainingUnderTest& under_test);
CheckResult check_future(TrainingUnderTest& under_test);
CheckResult check_layers(TrainingUnderTest& under_test);
CheckResult check_one_batch(TrainingUnderTest& under_test);
CheckResult check_learning_rate(TrainingUnderTest& under_test);
CheckResult check_plan(TrainingUnderTest& under_test);
CheckResult verdict_on(const TrainingPlan& plan);  // by its shapes alone
CheckResult check_threads(TrainingUnderTest& under_test);
CheckResult check_resume(TrainingUnderTest& under_test);

}  // namespace tapestry
