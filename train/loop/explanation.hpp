#pragma once

#include <string>

#include "train/loop/step_parts.hpp"
#include "train/ranks/ranks.hpp"

namespace tapestry {

// By all ranks: what of a step was first not finite (a parameter, an example's input, an op with
// its module and the ranges of what it read), found by computing it again with every op checked;
// or, where nothing is, the largest gradients. On all ranks the same text, of one line.
std::string explain_step(const StepParts& parts, Ranks& ranks);

// The op at which an evaluation of these examples stops being finite, in such a text; empty where
// none does. Of one process.
std::string explain_evaluation(Task& task, const Dataset& data, const Config& config);

}  // namespace tapestry
