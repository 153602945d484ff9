#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/plot/figure.hpp"
#include "train/tools/doctor/training_under_test.hpp"

namespace tapestry {

// A fault of a training: what was found, its likely cause, and what to do.
struct Fault {
  std::string found, cause, advice;
};

// The outcome of one check.
struct CheckResult {
  std::string said{};                   // result in a few words
  std::vector<std::string> warnings{};  // findings that are not faults
  std::optional<Fault> fault{};         // ends the doctor's checks
  std::optional<Figure> figure{};       // shows the finding
  bool skipped = false;                 // the training has nothing to check; `said` is the reason
};

// A check of a training; `examine` takes up to some minutes.
struct DoctorCheck {
  std::string name;
  std::function<CheckResult(TrainingUnderTest&)> examine;
};

// Returns all checks in order: a fault that one finds may affect those after it.
const std::vector<DoctorCheck>& doctor_checks();

// The exception of a check that a signal interrupted, after the check has removed its files.
struct Interrupted {};

// The training to examine, or null and the result of the check `plan` if the training does not fit
// into the memory.
struct Admitted {
  std::unique_ptr<TrainingUnderTest> under_test{};
  CheckResult refused{};
};
// Returns the training if it fits into `machine` bytes of memory; 0: that of this machine. Throws
// InputError as the training does.
Admitted admit(const ConfigWith& config_with, std::int64_t machine = 0);

// Runs a check. An exception of the model or its data is a fault, too. InputError, Interrupted and
// failures of the system are rethrown, because they say nothing about the training.
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

// --- helpers of the checks ---

// Returns the hashes of all windows of `length` adjacent tokens (Karp and Rabin 1987, "Efficient
// Randomized Pattern-Matching Algorithms").
std::vector<std::uint64_t> window_hashes(std::span<const std::int32_t> tokens, std::int64_t length);

}  // namespace tapestry
