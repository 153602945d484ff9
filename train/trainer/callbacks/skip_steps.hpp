#pragma once

#include <string>

#include "train/run/checkpoint.hpp"

// When train.max_bad_steps skips a step. The decision depends on what all ranks have.
namespace tapestry {

// A gradient norm is compared with the median of so many of the latest, once there are as many.
inline constexpr std::size_t norms_compared = 50;

// Returns what is wrong with the next step: its loss or gradient norm is not finite, or its norm is
// above train.bad_step_factor times the median of those before. Empty: nothing is wrong.
std::string fault_of_step(double loss, double norm, const Config& config,
                          const TrainingState::SkippedSteps& state);

// Adds the norm of a step without a fault to those that later ones are compared with.
void remember_norm(double norm, const Config& config, TrainingState::SkippedSteps& state);

}  // namespace tapestry
