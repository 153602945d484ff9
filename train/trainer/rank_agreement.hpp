#pragma once

#include "train/distributed/ranks.hpp"
#include "train/run/checkpoint.hpp"

namespace tapestry {

// Compares everything that decides the bits of a training between all ranks: program, processor,
// config, data and checkpoint. Throws InputError where one differs.
void expect_same_everywhere(const Config& config, const TrainingState& state, Ranks& ranks);

}  // namespace tapestry
