#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/plot/figure.hpp"
#include "train/tools/doctor/training_under_test.hpp"

namespace tapestry {

// A fault of a training, in three sentences.
struct Fault {
  std::string found, cause, advice;
};

// The outcome of one check.
struct CheckResult {
  std::string said{};                   // result in a few words
  std::vector<std::string> warnings{};  // findings that do not stop the doctor
  std::optional<Fault> fault{};         // stops it
  std::optional<Figure> figure{};       // shows the finding
  bool skipped = false;                 // the training has nothing to check: `said` why
};

// A check of a training, which takes seconds.
struct DoctorCheck {
  std::string name;
  std::function<CheckResult(TrainingUnderTest&)> examine;
};

// Returns all checks in their order: a fault of one would show in those after it.
const std::vector<DoctorCheck>& doctor_checks();

// Thrown by a check that a signal ended, after it has removed its files.
struct Interrupted {};

// A training that can be examined, or else the result of the check `plan` on one that does not fit
// into memory: `machine` bytes, or those of this machine.
struct Admitted {
  std::unique_ptr<TrainingUnderTest> under_test{};
  CheckResult refused{};
};
Admitted admit(const ConfigWith& config_with, std::int64_t machine = 0);

// Runs a check. An exception of the model or its data is a fault, too. InputError, Interrupted and
// failures of the system pass: they say nothing about the training.
CheckResult examine(const DoctorCheck& check, TrainingUnderTest& under_test);

// --- the checks ---

CheckResult check_shared_examples(TrainingUnderTest& under_test);
CheckResult check_values(TrainingUnderTest& under_test);
CheckResult check_labels(TrainingUnderTest& under_test);
CheckResult check_targets(TrainingUnderTest& under_test);
CheckResult check_first_loss(TrainingUnderTest& under_test);
CheckResult check_gradient(TrainingUnderTest& under_test);
CheckResult check_neighbors(TrainingUnderTest& under_test);
CheckResult check_future(TrainingUnderTest& under_test);
CheckResult check_layers(TrainingUnderTest& under_test);
CheckResult check_one_batch(TrainingUnderTest& under_test);
CheckResult check_learning_rate(TrainingUnderTest& under_test);
CheckResult check_plan(TrainingUnderTest& under_test);
CheckResult check_threads(TrainingUnderTest& under_test);
CheckResult check_resume(TrainingUnderTest& under_test);

// --- parts of them ---

// Returns the fault of a validation or test split in which at least two classes look like other
// classes of the training data. Only of tasks whose examples have one label each.
std::optional<Fault> exchanged_labels(TrainingUnderTest& under_test);

// Returns a hash of each `length` adjacent tokens, from the first on (Karp and Rabin 1987,
// "Efficient Randomized Pattern-Matching Algorithms").
std::vector<std::uint64_t> window_hashes(std::span<const std::int32_t> tokens, std::int64_t length);

}  // namespace tapestry
