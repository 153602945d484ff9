#pragma once

#include <string>

#include "train/distributed/ranks.hpp"
#include "train/trainer/step.hpp"

namespace tapestry {

// Returns one line that names what of a step was first not finite (a parameter, an example's input,
// or an op with its module and the ranges of its inputs), found by computing the step again with
// every op checked; if everything is finite, the largest gradients. Called by all ranks, which get
// the same text.
std::string explain_step(const StepInputs& inputs, Ranks& ranks);

// Returns "micro-batch 2 of 4 has the training examples 3, 17, 20 and 45 more"
std::string examples_of_micro_batch(const StepInputs& inputs, std::size_t i);

// Returns such a line for the evaluation of `data`, or "" if it is finite. Called by one process.
std::string explain_evaluation(Task& task, const Dataset& data, const Config& config);

// Throws std::runtime_error if a metric of an evaluation of `data`, the split named `split`, is not
// finite. Its message names the metric and the op. Called by all ranks.
void expect_finite(const Metrics& values, const std::string& split, const Dataset& data, Task& task,
                   const Config& config, Ranks& ranks);

}  // namespace tapestry
