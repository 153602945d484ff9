#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "optim/optimizer.hpp"
#include "train/distributed/gradient_sum.hpp"
#include "train/trainer/callback.hpp"

// The callbacks of a training, in the order in which they are called. Each stands in a source of
// its own. Their arguments outlive them. The first three decide what a training computes, and every
// Trainer has them; the others observe, and train_into adds them at rank 0.
namespace tapestry {

using Log = std::function<void(const std::string& message)>;

// Returns the callbacks that keep and exchange averaged weights (train.average_decay): their arrays
// in a checkpoint are "optimizer.weights.<parameter>".
std::unique_ptr<Callback> average_weights(const std::vector<Parameter*>& parameters,
                                          const Optimizer& optimizer, double decay);

// Returns what skips steps that are not finite or jump (train.max_bad_steps), and throws
// std::runtime_error with an explanation at one step too many. State: TrainingState::skipped.
std::unique_ptr<Callback> skip_steps(const Config& config, TrainingState& state, Ranks& ranks,
                                     Log log);

// Returns what ends a training whose validation loss no longer improves (train.early_stopping,
// train.min_delta). State: TrainingState::early_stopping.
std::unique_ptr<Callback> stop_early(const Config& config, TrainingState& state, Log log);

// Returns what sets `stop` when the process has run for `minutes` (train.time_limit; 0: never).
// On every rank.
std::unique_ptr<Callback> limit_time(double minutes, std::atomic<bool>& stop);

// Returns what measures the steps 6 to 25 of this process (--profile), writes profile.txt and
// trace.json, and logs the table.
std::unique_ptr<Callback> profile_steps(RunLock& lock, const Ranks& ranks, const GradientSum& sum,
                                        Log log);

// Return what writes metrics.jsonl, checksums.jsonl (of each evaluated tensor), samples.jsonl
// (train.samples) and TensorBoard's events (train.tensorboard). Progress, which shows a training on
// the terminal, has a header of its own and comes after the checksums.
std::unique_ptr<Callback> record_metrics(RunLock& lock);
std::unique_ptr<Callback> record_checksums(RunLock& lock);
std::unique_ptr<Callback> record_for_tensorboard(RunLock& lock, Task& task, const Config& config);
std::unique_ptr<Callback> record_samples(RunLock& lock, Task& task, const Config& config);

}  // namespace tapestry
