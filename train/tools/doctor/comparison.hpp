#pragma once

#include "train/tools/doctor/training_under_test.hpp"

namespace tapestry {

// What a model said and what it should have said, as the op of its loss compared them.
struct Comparison {
  enum class Kind { unknown, cross_entropy, binary_cross_entropy, squared_error };
  Kind kind = Kind::unknown;
  Array outputs{};  // logits (…, V), or numbers
  Array targets{};  // classes (…) int32, or numbers of the outputs' shape

  // Means over what is compared, in nats, or squares of the targets' unit:
  double error() const;           // of the outputs
  double naive() const;           // of outputs that say nothing: all classes alike, ½, or 0
  double floor() const;           // of the best outputs that there can be
  double blind() const;           // of the best outputs that do not depend on the inputs,
  double blind_by_place() const;  // and may differ from place to place in an example
};

// Runs a pass over the examples and looks at the first op of a loss in it.
Comparison compare_outputs(Task& task, const Config& config, const Examples& examples);

}  // namespace tapestry
