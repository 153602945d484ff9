#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/clock.hpp"
#include "optim/optimizer.hpp"
#include "train/distributed/gradient_sum.hpp"
#include "train/inspect/inspected.hpp"
#include "train/trainer/callback.hpp"

// The callbacks of a training, in the order in which they are called, each with its own source.
// Their arguments must outlive them. The first three change what a training computes, and every
// Trainer has them. train_into adds the others, all but the time limit at rank 0 only; they do not
// change what a step computes.
namespace tapestry {

using Log = std::function<void(const std::string& message)>;

// Returns the callback that updates and exchanges averaged weights, those of train.average_decay or
// of the optimizer (Optimizer::averages). Its arrays in a checkpoint are
// "optimizer.weights.<parameter>".
std::unique_ptr<Callback> average_weights(const Optimizer& optimizer, double decay);

// Returns the callback that skips steps whose loss or gradient norm is not finite or whose gradient
// norm jumps, see fault_of_step(). After train.max_bad_steps skipped steps, the callback throws
// std::runtime_error with an explanation of the next one. State: TrainingState::skipped.
std::unique_ptr<Callback> skip_steps(const Config& config, TrainingState& state, Ranks& ranks,
                                     Log log);

// Number of gradient norms whose median the next norm is compared with, once there are as many.
inline constexpr std::size_t norms_compared = 50;

// Returns why a step must be skipped: its loss or gradient norm is not finite, or, if
// train.max_bad_steps and train.bad_step_factor are above 0 and `state` has norms_compared norms,
// its norm is above the factor times their median. Returns "" if the step may be taken.
std::string fault_of_step(double loss, double norm, const Config& config,
                          const TrainingState::SkippedSteps& state);

// Adds the norm of a step that was not skipped to those with which later norms are compared.
void remember_norm(double norm, const Config& config, TrainingState::SkippedSteps& state);

// Returns the callback that ends a training whose validation loss no longer improves
// (train.early_stopping, train.min_delta). State: TrainingState::early_stopping.
std::unique_ptr<Callback> stop_early(const Config& config, TrainingState& state, Log log);

// Returns the callback that sets `stop`, and logs this at the end, when the minutes of
// train.time_limit (0: never) have passed since `started_s`, on the clock of now_s(); none: since
// each on_begin().
std::unique_ptr<Callback> limit_time(const Config& config, const TrainingState& state,
                                     std::atomic<bool>& stop, Log log,
                                     std::optional<double> started_s = std::nullopt);

// Returns the callback of --profile, which measures the steps 6 to 25 of this process, or those of
// them that are trained, writes profile.txt and trace.json, and logs the table. If no step was
// measured, the callback logs why it writes no files.
std::unique_ptr<Callback> profile_steps(RunLock& lock, const Ranks& ranks, const GradientSum& sum,
                                        Log log);

// Return callbacks that write metrics.jsonl, checksums.jsonl (of each evaluated tensor),
// samples.jsonl (train.samples) and TensorBoard's events (train.tensorboard). Progress, which has
// its own header, comes after the checksums.
std::unique_ptr<Callback> record_metrics(RunLock& lock);
std::unique_ptr<Callback> record_checksums(RunLock& lock);
std::unique_ptr<Callback> record_for_tensorboard(RunLock& lock, Task& task, const Config& config);
std::unique_ptr<Callback> record_samples(RunLock& lock, Task& task, const Config& config);

// --- for callbacks that inspect the model ---

// A limit of the time for inspections of a model during a training: a hundredth of the training's
// time, except for the first. The number of inspections depends on the machine; the training does
// not depend on them.
class InspectionBudget {
 public:
  bool allows_one() const;  // returns whether an inspection may begin now
  // Calls `inspect` and adds its time.
  template <class Inspect>
  void spend_on(const Inspect& inspect) {
    const double begin = now_s();
    inspect();
    spent_s_ += now_s() - begin;
  }

 private:
  double started_s_ = now_s(), spent_s_ = 0;
};

// Returns a new sample of the model, with at most `most_bytes` bytes of text.
Sample sample_now(const Config& config, Task& task, std::size_t most_bytes);

}  // namespace tapestry
