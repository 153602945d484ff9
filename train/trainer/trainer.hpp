#pragma once

#include <atomic>
#include <functional>

#include "autograd/profile.hpp"
#include "data/loader.hpp"
#include "optim/averaged_weights.hpp"
#include "optim/schedule.hpp"
#include "train/distributed/gradient_sum.hpp"
#include "train/run/recorder.hpp"
#include "train/trainer/step_inputs.hpp"

namespace tapestry {

std::unique_ptr<Optimizer> make_optimizer(const Config& config, std::vector<Parameter*> parameters);
Schedule make_schedule(const Config& config);

struct TrainerOptions {
  std::vector<Recorder*> recorders{};  // of what is measured; they outlive the trainer
  RunLock* lock = nullptr;  // of the run's folder, and outlives it; null: no checkpoint is written
  bool profile = false;     // note where the time of some steps goes, and leave a trace of them
  std::function<bool(const MetricsLine&)> until{};  // true of an evaluation: it is the last
};

// InputError where a run was trained on other data so far than these, as a Trainer's state says.
void expect_same_data(const Run& run, const TrainingState& before, const TrainingState& now,
                      const Config& config);

// What one micro-batch of a step measured.
struct MicroBatchMetrics {
  bool told_to_stop = false;
  double units = 0;
  MetricSums averages{};
  static void fields(auto& visit, auto& self) {
    visit(self.told_to_stop, self.units, self.averages);
  }
};

// What the next step comes to before it moves anything.
struct ComputedStep {
  StepInputs inputs;
  MetricSums averages;
  Gradients gradients;
  Clip clip;
};

// The only loop: trains a task and keeps its run folder.
class Trainer {
 public:
  // Continues from `checkpoint` if there is one: InputError where it does not fit task and data,
  // before anything is written. `stop` is looked at after each step, and while evaluating. By all
  // ranks, as train(); only rank 0 has the lock and recorders, and writes.
  Trainer(Task& task, const Config& config, Run run, const Checkpoint* checkpoint,
          const std::atomic<bool>& stop, Ranks& ranks, const TrainerOptions& options);

  // To the last step, to what `until` waits for, or until stopped; a checkpoint is written each
  // time. Throws when a loss is not finite: the checkpoint before it stays. Returns the last
  // evaluation, empty if stopped.
  Metrics train();

  // Of those who watch a training that is kept nowhere: its steps, and what would be taken down.
  MetricSums step();       // throws as train() does
  ComputedStep compute();  // the next step, and leaves it at that
  void follow(const Schedule& schedule) { schedule_ = schedule; }  // from the next step on
  MetricsLine training_line(
      const MetricSums& averages) const;  // of the last step, without its speed
  MetricsLine evaluation_line();          // of now; without values where it was stopped
  OptimizerState optimizer_state();       // by all: what a checkpoint keeps of it, at rank 0
  Checksums checksums();                  // of the tensors that a checkpoint would hold now
  double learning_rate() const { return schedule_.at(state_.step); }  // of the next step
  std::int64_t optimizer_bytes() const;  // of the state that this rank keeps

  const TrainingState& state() const { return state_; }
  const GradientSum& gradients() const { return sum_; }

 private:
  void move(const ComputedStep& computed);
  void pass_over(const ComputedStep& computed, const std::string& fault);
  MetricSums profiled_step();
  bool is_evaluated(std::int64_t step) const;
  void look();
  void report_profile();
  void log(const MetricSums& averages);
  Metrics evaluate_and_keep_best();
  [[noreturn]] void fail_evaluation(double loss);
  bool is_out_of_patience() const;
  std::runtime_error failure(std::int64_t step, const std::runtime_error& error) const;
  std::string what_is_kept() const;
  void record(const MetricsLine& line);
  void log(const std::string& text);
  void save_checkpoint_of_step();
  void save(const std::string& path);
  MetricSums add_measured(const std::vector<std::vector<MicroBatchMetrics>>& of_ranks);
  bool stops() const;
  double elapsed_s() const;

  Task& task_;
  const Config& config_;
  Run run_;
  RunLock* lock_;
  const std::atomic<bool>& stop_;
  std::vector<Parameter*> parameters_;
  Ranks& ranks_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<AveragedWeights> average_;  // which is evaluated and saved in their place
  GradientSum sum_;
  bool shards_;  // the optimiser's state
  Schedule schedule_;
  Loader loader_;
  TrainingState state_;
  std::int64_t saved_step_ = -1;  // of checkpoint.safetensors
  std::vector<Recorder*> recorders_;
  bool profile_;
  std::function<bool(const MetricsLine&)> until_;
  bool reached_ = false;         // what `until` waits for, or the end of all gains
  bool stopping_ = false;        // of the ranks, one was told to stop
  std::int64_t steps_here_ = 0;  // of this process
  std::vector<profile::Event> events_;
  double gradient_norm_ = 0;
  std::optional<Gradients> gradients_;  // of a step that is looked at
  double units_since_log_ = 0, logged_at_s_ = 0, started_at_s_ = 0;
};

}  // namespace tapestry
