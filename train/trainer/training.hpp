#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "train/distributed/ranks.hpp"
#include "train/run/lines.hpp"
#include "train/run/run.hpp"
#include "train/trainer/callback.hpp"

namespace tapestry {

struct TrainIntoOptions {
  bool resume = false;                 // resume from the run's checkpoint
  bool quiet = false;                  // print only problems
  bool silent = false;                 // print nothing; messages go to the callbacks alone
  bool profile = false;                // print the time of each part of a step
  bool fits_baselines = true;          // record the task's baselines at the end
  std::vector<Callback*> callbacks{};  // called after all others, on every rank
  std::optional<Run> same_data_as{};   // a run; other data than it recorded are refused
  // Ends the training after a step, or within an evaluation, with a checkpoint, once it is true;
  // the time limit sets it. Null: only the time limit ends it.
  std::atomic<bool>* stop = nullptr;
  bool stops_at_signals = false;      // signals set `stop` while it trains (StopAtSignals)
  std::optional<double> started_s{};  // now_s() from which train.time_limit counts; none: the call
};

// The result of a training.
struct FinishedTraining {
  // Metrics of the last evaluation, and of the best model on the test split; empty if stopped.
  Metrics metrics;
  Signatures signatures;
  TrainingState state;
  SplitBaselines baselines{};  // at rank 0; empty if stopped

  // Returns a line for each baseline of the test split, or else of the validation split, and one
  // that compares the best model with them; "" without any.
  std::string compared_with_baselines() const;
};

// Trains a config into a run's folder, evaluates the best model on the test split if there is one,
// and records the task's baselines. Must be called by all ranks; only rank 0 writes. Throws
// InputError if the folder, the config or the data do not allow the training, and
// std::runtime_error if the training fails or its files cannot be written.
FinishedTraining train_into(const Run& run, const Config& config, const TrainIntoOptions& options,
                            Ranks& ranks);
FinishedTraining train_into(const Run& run, const Config& config, const TrainIntoOptions& options);

}  // namespace tapestry
