#pragma once

#include <memory>

#include "train/task.hpp"

namespace tapestry {

// Returns the task of a training before its first step. Its weights are those of another run
// (train.from) or random; a dry run (autograd/dry_run.hpp) has shapes only.
enum class Weights { there, dry_run };
std::unique_ptr<Task> begin_task(const Config& config, Weights weights = Weights::there);

// Checks keys that depend on one another and on the number of ranks. Throws InputError before
// anything is written.
void check_training_keys(const Config& config, int ranks = 1);

}  // namespace tapestry
