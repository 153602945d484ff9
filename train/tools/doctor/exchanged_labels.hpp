#pragma once

#include <optional>

#include "train/tools/doctor/check.hpp"

namespace tapestry {

// The fault of a validation or test split in which examples of at least two classes look like those
// of other classes in training, by the nearest class mean: labels that were exchanged, or numbered
// by another list. Of tasks whose examples have one label each; else, and where the means do not
// tell the classes apart, nothing.
std::optional<Fault> exchanged_labels(TrainingUnderTest& under_test);

}  // namespace tapestry
