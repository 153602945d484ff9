#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autograd/fair_lock.hpp"
#include "data/loader.hpp"
#include "optim/schedule.hpp"
#include "train/trainer/callbacks/callbacks.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/step.hpp"

namespace tapestry {

// The training loop, which trains a task and writes its run's folder.
class Trainer {
 public:
  // Resumes from `checkpoint` if it is not null. Throws InputError, before anything is written, if
  // the checkpoint does not fit task and data. `lock` is that of the run's folder at rank 0; null:
  // no checkpoint is written. `stop` ends the training after a step or within an evaluation. Must
  // be called by all ranks, as train() must. All arguments must outlive the trainer.
  Trainer(Task& task, const Config& config, Run run, const Checkpoint* checkpoint,
          const std::atomic<bool>& stop, Ranks& ranks, RunLock* lock = nullptr);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Add a callback after those that the trainer has (callbacks.hpp). The reference must outlive the
  // trainer; the trainer owns the object of the pointer.
  void add(Callback& callback) { callbacks_.emplace_back(std::shared_ptr<void>(), &callback); }
  void add(std::unique_ptr<Callback> callback) { callbacks_.push_back(std::move(callback)); }
  void log(const std::string& message);  // passes a message for the user to all callbacks

  // Makes other threads that hold `lock` to read see the weights between two steps: it is held
  // while weights change, and while averages are exchanged. It must outlive the trainer.
  void share_weights(FairLock& lock) { shared_ = &lock; }
  // Takes the micro-batches of this rank from a function in place of the training examples. Their
  // numbers are step · train.micro_batches + i.
  using GetBatch = std::function<Batch(std::int64_t number)>;
  void take_batches_from(GetBatch get_batch) { get_batch_ = std::move(get_batch); }

  // Trains to the last step, until a callback ends the training, or until stopped, and writes a
  // checkpoint. Returns the last evaluation, empty if stopped. Throws std::runtime_error if a loss
  // or a parameter is not finite, and InputError if memory runs out; the last checkpoint is then
  // kept.
  Metrics train();

  // Returns the metrics of the task's present weights on one of its splits; empty if stopped.
  // Throws as tapestry::evaluate() does. Must be called by all ranks.
  Metrics evaluate(const Dataset& data);
  // Throws Diverged as tapestry::expect_finite() does if a metric of evaluate() is not finite. Must
  // be called by all ranks.
  void expect_finite(const Metrics& values, const std::string& split, const Dataset& data);

  // Records the evaluation of the best model on the test split, after train().
  void record_test(const MetricsLine& tested);

  // --- for tools that take steps themselves; nothing is recorded ---
  MetricSums step();       // returns the sums of the metrics; throws as train() does
  MetricSums take_step();  // lets NonFiniteError, OutOfMemory and other exceptions pass
  // Returns the loss and gradients of the next step without updating parameters. Reads its batch,
  // so that a later call of compute() or step() uses the batch after it.
  ComputedStep compute();
  // Sets the schedule from the next step on.
  void follow(const Schedule& schedule) { schedule_ = schedule; }
  MetricsLine training_line(const MetricSums& averages) const;  // returns the line of the last step
  // Returns the line of an evaluation of the validation split; its values are empty if stopped.
  // Throws InputError if a batch does not fit into memory. Must be called by all ranks.
  MetricsLine evaluation_line();
  // Writes a checkpoint with `write`. Throws Diverged, without writing, if a parameter is not
  // finite.
  void write_checkpoint(const WriteParts& write);
  // Returns the arrays of a checkpoint without parameters at rank 0; must be called by all ranks.
  OptimizerState optimizer_state();
  // Returns the checksums of the tensors that a checkpoint has now; must be called by all ranks.
  Checksums checksums();
  // Returns the learning rate of the next step.
  double learning_rate() const { return schedule_.at(state_.step); }
  std::int64_t optimizer_bytes() const;  // size of the optimizer state that this rank keeps
  // Returns whether the ranks' shards of the optimizer state differ in size, because some
  // parameters are updated as a whole.
  bool has_uneven_shards() const;
  const TrainingState& state() const { return state_; }
  // Throws InputError if the sessions of `run` recorded other data than those of this training.
  void expect_data_of(const Run& run) const;
  const GradientSum& gradients() const { return sums_.gradients(); }

 private:
  class ExchangedWeights;
  void update(const ComputedStep& computed);
  void record_training(const MetricSums& averages);
  void record(const MetricsLine& line);
  Metrics evaluate_and_record();
  void inspect();
  bool is_stopped() const;
  bool is_ended() const;
  // Throws the error with the step and the place of the last checkpoint: Diverged if `error` is a
  // NonFiniteError, else std::runtime_error.
  [[noreturn]] void fail(std::int64_t step, const std::runtime_error& error) const;
  void save_checkpoint_of_step();
  void save(const std::string& path);
  void expect_finite_parameters();
  std::unique_lock<FairLock> changing_weights() const;
  std::vector<Batch> next_batches();

  Task& task_;
  const Config& config_;
  const EvaluationOptions evaluation_;
  Run run_;
  RunLock* lock_;
  const std::atomic<bool>& stop_;
  Ranks& ranks_;
  std::unique_ptr<Optimizer> optimizer_;
  Schedule schedule_;
  StepSums sums_;
  Loader loader_;
  TrainingState state_;
  std::vector<std::shared_ptr<Callback>> callbacks_;
  FairLock* shared_ = nullptr;
  GetBatch get_batch_{};
  bool is_told_to_stop_ = false;         // whether a rank was told to stop
  std::int64_t saved_step_ = -1;         // step of checkpoint.safetensors
  double started_s_ = 0;                 // now_s() at the start, minus the time of earlier sessions
  double units_ = 0, units_from_s_ = 0;  // since the last training line, without evaluations
};

}  // namespace tapestry
