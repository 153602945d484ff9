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
struct GateVerdict {
  std::string said{};                   // what was looked at and found, in a few words
  std::vector<std::string> warnings{};  // of what stops nothing
  std::optional<Fault> fault{};         // of what stops here
  std::optional<Figure> figure{};       // that shows it
  bool skipped = false;                 // there is nothing that the gate could look at: `said` why
};

// A question to a training, answered within seconds.
struct Gate {
  std::string name;
  std::function<GateVerdict(Patient&)> examine;
};

// In the order in which they are asked: a fault of one would show in those behind it.
const std::vector<Gate>& gates();

// Thrown by a gate that a signal ended, once it has tidied up.
struct Interrupted {};

// A training that can be examined, or else the verdict of the gate `plan` on one that the memory
// does not hold: `machine` bytes, or what this machine has.
struct Admission {
  std::unique_ptr<Patient> patient{};
  GateVerdict refused{};
};
Admission admit(const ConfigWith& config_with, std::int64_t machine = 0);

// The gate's verdict. What the model or its data throw is a fault, too; InputError, Interrupted,
// and what the system refuses pass: they say nothing of the training.
GateVerdict examine(const Gate& gate, Patient& patient);

// --- the gates ---

GateVerdict check_shared_examples(Patient& patient);
GateVerdict check_values(Patient& patient);
GateVerdict check_labels(Patient& patient);
GateVerdict check_targets(Patient& patient);
GateVerdict check_first_loss(Patient& patient);
GateVerdict check_gradient(Patient& patient);
GateVerdict check_neighbours(Patient& patient);
GateVerdict check_future(Patient& patient);
GateVerdict check_layers(Patient& patient);
GateVerdict check_one_batch(Patient& patient);
GateVerdict check_learning_rate(Patient& patient);
GateVerdict check_plan(Patient& patient);
GateVerdict verdict_on(const TrainingPlan& plan);  // by its shapes alone
GateVerdict check_threads(Patient& patient);
GateVerdict check_resume(Patient& patient);

}  // namespace tapestry
