#pragma once

#include <optional>
#include <string>

#include "train/trainer/training.hpp"

namespace tapestry {

// Prints the first lines of a training: its model, data and machine, and what is unusual about it.
// `backends_before` are those that computed the checkpoint that it resumes.
void announce(const Config& config, const Run& run, Task& task, const TrainingState& state,
              const std::optional<std::string>& backends_before, const TrainingOptions& options);

}  // namespace tapestry
