#pragma once

#include <string>

#include "train/loop/step_parts.hpp"
#include "train/ranks/ranks.hpp"

namespace tapestry {

// By all ranks: what of a step was first not finite (a parameter, an example's input, an op with
// its module and the ranges of what it read), found by computing it again with every op checked;
// or, where nothing is, the largest gradients. On all ranks the same text, of one line.
std::string explain_step(const StepParts& parts, Ranks& ranks);

// "part 2 of 4 has the training examples 3, 17, 20 and 45 more"
std::string examples_of_part(const StepParts& parts, std::size_t i);

// The op at which an evaluation of these examples stops being finite, in such a text; empty where
// none does. Of one process.
std::string explain_evaluation(Task& task, const Dataset& data, const Config& config);

}  // namespace tapestry
