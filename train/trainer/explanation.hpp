#pragma once

#include <string>

#include "train/distributed/ranks.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/step.hpp"

namespace tapestry {

// The error of a training whose loss, gradients or parameters are not finite.
class Diverged final : public NonFiniteError {
 public:
  using NonFiniteError::NonFiniteError;
};

// Returns one line that names the first part of a step that is not finite (a parameter, an
// example's input, or an op with its module and the ranges of its inputs), or the largest gradients
// if all parts are finite. Computes the step again with every op checked. Must be called by all
// ranks, on which it returns the same text.
std::string explain_step(const StepInputs& inputs, Ranks& ranks);

// Returns the first training examples of a micro-batch as text: "micro-batch 2 of 4: training
// examples 3, 17, …", without the number of the micro-batch if it is the only one; "batches(17)" if
// a function of a program gave it (TrainingData::batches).
std::string examples_of_micro_batch(const StepInputs& inputs, std::size_t i);

// Throws Diverged, which names the metric and the op, if a metric of an evaluation of
// `data`, the split named `split`, is not finite. Must be called by all ranks.
void expect_finite(const Metrics& values, const std::string& split, const Dataset& data, Task& task,
                   const EvaluationOptions& options, Ranks& ranks);

}  // namespace tapestry
