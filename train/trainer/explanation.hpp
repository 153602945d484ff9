#pragma once

#include <string>

#include "train/distributed/ranks.hpp"
#include "train/trainer/step.hpp"

namespace tapestry {

// By all ranks: what of a step was first not finite (a parameter, an example's input, an op with
// its module and the ranges of what it read), found by computing it again with every op checked;
// or, where nothing is, the largest gradients. On all ranks the same text, of one line.
std::string explain_step(const StepInputs& inputs, Ranks& ranks);

// "part 2 of 4 has the training examples 3, 17, 20 and 45 more"
std::string examples_of_micro_batch(const StepInputs& inputs, std::size_t i);

// The op at which an evaluation of these examples stops being finite, in such a text; empty where
// none does. Of one process.
std::string explain_evaluation(Task& task, const Dataset& data, const Config& config);

// Throws std::runtime_error where a figure of an evaluation of `data`, the split of this name, is
// not finite: names it, and the op that it comes from. By all ranks, on all of them.
void expect_finite(const Metrics& values, const std::string& split, const Dataset& data, Task& task,
                   const Config& config, Ranks& ranks);

}  // namespace tapestry
