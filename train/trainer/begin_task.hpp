#pragma once

#include <memory>

#include "train/task.hpp"

namespace tapestry {

enum class Weights { there, dry_run };
// Returns the task of a training before its first step. Its weights are those of another run
// (train.from) or random; with Weights::dry_run (autograd/dry_run.hpp) they have only shapes.
// Throws InputError as make_task() and load_trained_metadata() do, and for weights that do not fit.
std::unique_ptr<Task> begin_task(const Config& config, Weights weights = Weights::there);

// Checks keys that depend on each other and on the number of ranks. Throws InputError before
// anything is written.
void check_training_keys(const Config& config, int ranks = 1);

}  // namespace tapestry
