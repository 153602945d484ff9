#pragma once

#include <vector>

#include "train/distributed/ranks.hpp"
#include "train/trainer/callback.hpp"

namespace tapestry {

struct TrainingOptions {
  bool resume = false;                 // continue from the run's checkpoint
  bool quiet = false;                  // print problems only
  bool profile = false;                // print where the time of a step goes
  std::vector<Callback*> callbacks{};  // after all others, on every rank
};

// What a training came to.
struct Training {
  Metrics metrics;  // of the last evaluation, and of the best model's test; empty: it was stopped
  Signatures signatures;
  TrainingState state;
};

// Trains what a config says into a run's folder, keeps it, and tests the best model where the task
// has a test split. SIGINT, SIGTERM, SIGHUP and SIGUSR1 end it after a step, or while it evaluates,
// with a checkpoint. By all ranks; rank 0 alone locks the folder and writes.
Training train_into(const Run& run, const Config& config, const TrainingOptions& options,
                    Ranks& ranks);
Training train_into(const Run& run, const Config& config, const TrainingOptions& options);

}  // namespace tapestry
