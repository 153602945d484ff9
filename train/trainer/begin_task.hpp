#pragma once

#include <memory>

#include "train/task.hpp"

namespace tapestry {

// Returns the task of a training's first step: its weights are another run's (train.from), or drawn
// at random. A dry run has neither (autograd/dry_run.hpp).
enum class Weights { there, dry_run };
std::unique_ptr<Task> begin_task(const Config& config, Weights weights = Weights::there);

// Checks keys that depend on one another and on the number of ranks. Throws InputError before
// anything is written.
void check_training_keys(const Config& config, int ranks = 1);

}  // namespace tapestry
