#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "data/loader.hpp"
#include "optim/schedule.hpp"
#include "train/trainer/callbacks/callbacks.hpp"
#include "train/trainer/step_sums.hpp"

namespace tapestry {

std::unique_ptr<Optimizer> make_optimizer(const Config& config, std::vector<Parameter*> parameters);
Schedule make_schedule(const Config& config);

// Throws InputError if a run was trained on other data so far than these, as `before` says.
void expect_same_data(const Run& run, const TrainingState& before, const TrainingState& now,
                      const Config& config);

// The only training loop: trains a task and keeps its run folder.
class Trainer {
 public:
  // Continues from `checkpoint` if there is one; throws InputError if it does not fit task and
  // data, before anything is written. `lock` is of the run's folder; null: no checkpoint is
  // written. `stop` ends the training after a step, or an evaluation. By all ranks, as train();
  // only rank 0 has the lock. All arguments outlive the trainer.
  Trainer(Task& task, const Config& config, Run run, const Checkpoint* checkpoint,
          const std::atomic<bool>& stop, Ranks& ranks, RunLock* lock = nullptr);
  ~Trainer();  // destroys the callbacks that it owns in reverse order
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Adds a callback after those that the trainer has (callbacks.hpp). It outlives the trainer.
  void add(Callback& callback) { callbacks_.push_back(&callback); }
  void add(std::unique_ptr<Callback> callback);
  void log(const std::string& message);  // to all callbacks

  // Trains to the last step, until a callback ends the training, or until stopped, and writes a
  // checkpoint. Returns the last evaluation, empty if stopped. Throws std::runtime_error if a loss
  // is not finite; the checkpoint before it stays.
  Metrics train();

  // Records a test of the best model, after train().
  void record_test(const MetricsLine& tested);

  // --- for tools that take steps themselves; nothing is recorded ---
  MetricSums step();       // throws as train() does
  ComputedStep compute();  // the next step, which moves nothing
  void follow(const Schedule& schedule) { schedule_ = schedule; }  // from the next step on
  MetricsLine training_line(const MetricSums& averages) const;     // of the last step
  MetricsLine evaluation_line();     // of now; without values if it was stopped
  OptimizerState optimizer_state();  // by all: what a checkpoint has beside parameters, at rank 0
  Checksums checksums();             // of the tensors that a checkpoint would hold now
  double learning_rate() const { return schedule_.at(state_.step); }  // of the next step
  std::int64_t optimizer_bytes() const;  // of the state that this rank keeps
  const TrainingState& state() const { return state_; }
  const GradientSum& gradients() const { return sums_.gradients(); }

 private:
  class ExchangedWeights;
  void update(const ComputedStep& computed);
  void record_training(const MetricSums& averages);
  void record(const MetricsLine& line);
  Metrics evaluate();
  void inspect();
  [[noreturn]] void fail_evaluation(double loss);
  bool is_stopped() const;
  bool is_ended() const;
  std::runtime_error failure(std::int64_t step, const std::runtime_error& error) const;
  void save_checkpoint_of_step();
  void save(const std::string& path);

  Task& task_;
  const Config& config_;
  Run run_;
  RunLock* lock_;
  const std::atomic<bool>& stop_;
  Ranks& ranks_;
  std::vector<Parameter*> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  Schedule schedule_;
  StepSums sums_;
  Loader loader_;
  TrainingState state_;
  std::vector<std::unique_ptr<Callback>> own_callbacks_;
  std::vector<Callback*> callbacks_;
  bool is_told_to_stop_ = false;         // a rank was
  std::int64_t saved_step_ = -1;         // of checkpoint.safetensors
  double gradient_norm_ = 0;             // of the last step
  double started_s_ = 0;                 // when the training would have begun without a pause
  double units_ = 0, units_from_s_ = 0;  // since the last line of training, without evaluations
};

}  // namespace tapestry
