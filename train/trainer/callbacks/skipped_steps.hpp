#pragma once

#include <string>

#include "train/run/checkpoint.hpp"

// Of train.max_bad_steps: steps that are left out. What is decided depends on what all ranks have.
namespace tapestry {

// Of so many latest norms the median is what a norm is compared with, once there are as many.
inline constexpr std::size_t norms_compared = 50;

// What is wrong with the next step: its loss or gradient is not finite, or its norm is above
// train.bad_step_factor times the median. Empty: nothing.
std::string fault_of_step(double loss, double norm, const Config& config,
                          const TrainingState& state);

// Of a step without a fault.
void remember_norm(double norm, const Config& config, TrainingState& state);

}  // namespace tapestry
