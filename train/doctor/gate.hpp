#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/doctor/patient.hpp"
#include "train/draw/figure.hpp"

namespace tapestry {

// What is amiss, as a cause and not as one of its consequences: three sentences.
struct Fault {
  std::string found, cause, advice;
};

// What one gate says of a training.
struct Verdict {
  std::string said{};                   // what was looked at and found, in a few words
  std::vector<std::string> warnings{};  // of what stops nothing
  std::optional<Fault> fault{};         // of what stops here
  std::optional<Figure> figure{};       // that shows it
  bool skipped = false;                 // there is nothing that the gate could look at: `said` why
};

// A question to a training, answered within seconds.
struct Gate {
  std::string name;
  std::function<Verdict(Patient&)> examine;
};

// In the order in which they are asked: a fault of one would show in those behind it.
const std::vector<Gate>& gates();

// Thrown by a gate that a signal ended, once it has tidied up.
struct Interrupted {};

// The gate's verdict. What the model or its data throw is a fault, too; InputError and
// Interrupted pass.
Verdict examine(const Gate& gate, Patient& patient);

// --- the gates ---

Verdict check_shared_examples(Patient& patient);
Verdict check_values(Patient& patient);
Verdict check_labels(Patient& patient);
Verdict check_targets(Patient& patient);
Verdict check_first_loss(Patient& patient);
Verdict check_gradient(Patient& patient);
Verdict check_neighbours(Patient& patient);
Verdict check_future(Patient& patient);
Verdict check_layers(Patient& patient);
Verdict check_one_batch(Patient& patient);
Verdict check_learning_rate(Patient& patient);
Verdict check_plan(Patient& patient);
Verdict check_threads(Patient& patient);
Verdict check_resume(Patient& patient);

}  // namespace tapestry
