#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/task.hpp"
#include "train/tools/doctor/data_statistics.hpp"
#include "train/tools/plan/plan.hpp"

namespace tapestry {

// Some examples of a split, and the batch that they make.
struct Examples {
  std::vector<std::int64_t> numbers{};
  Batch batch{};
};

// A training that is examined: its config, its task, and its model as it is before the first step.
// One whose steps are slow is examined with a shorter context and smaller batches.
class TrainingUnderTest {
 public:
  // With what was planned of it before its model was there to take memory.
  explicit TrainingUnderTest(ConfigWith config_with,
                             std::optional<TrainingPlan> plan = std::nullopt);

  const ConfigWith& config_with() const { return config_with_; }  // the config as it was given,
  const Config& config() const { return config_; }                // and as it is examined
  const std::string& remark() const { return remark_; }  // the keys that differ; may be empty
  double step_s() const { return step_s_; }              // of a step as it is examined, about
  double steps_in_a_given_one() const;                   // of such steps, by examples and context
  const std::optional<TrainingPlan>& plan() const { return plan_; }

  Task& task() { return *task_; }
  std::vector<Parameter*> parameters() { return task_->model().parameters(); }
  void begin_anew();        // all parameters as before the first step, in float32
  void begin_in_float64();  // the same in float64, a little aside, where no ReLU is at its kink

  // Of the arrays of weights, the one that has grown most since before the first step, and how many
  // times as large it is now. Those that began with 0 are left out.
  struct Growth {
    std::string name{};
    double times = 0;
  };
  Growth largest_growth();

  // The learning rate at which one batch was learnt by heart; 0: nobody has tried, or could.
  void record_learned_at(double rate) { learned_at_ = rate; }
  double learned_at() const { return learned_at_; }

  // The task of another process: nothing that this one's did stays in it.
  std::unique_ptr<Task> fresh_task() const;

  const DatasetStatistics& training_statistics();  // made once

  // A split that no step reads, and its survey.
  struct EvaluationSplit {
    std::string name{};  // "validation" or "test"
    const Dataset* data = nullptr;
    DatasetStatistics dataset_statistics{};
  };
  // Returns the validation split, and the test split where the task has one. Made once.
  const std::vector<EvaluationSplit>& evaluation_splits();

  // Of the training data, `count` at most: those that a training reads first, after `skip` others.
  Examples training_examples(std::int64_t count, std::int64_t skip = 0);

 private:
  void measure_step();
  void shorten_context();
  void shrink_batch();
  void keep_first_values();

  ConfigWith config_with_;
  std::optional<TrainingPlan> plan_;
  Config config_;
  std::unique_ptr<Task> task_;
  std::vector<Array> first_values_;
  std::optional<DatasetStatistics> training_;
  std::vector<EvaluationSplit> evaluation_splits_;
  std::optional<Sampler> sampler_;
  std::string remark_;
  double step_s_ = 0, learned_at_ = 0;
  bool in_float64_ = false;  // and not moved since
};

Examples examples_of(const Dataset& data, std::vector<std::int64_t> numbers);

// A training step's loss without dropout, after any warm-up of its terms, each example with noise
// of its own: of the same examples the same, whatever else is in the batch.
Loss quiet_loss(Task& task, const Config& config, const Examples& examples);

}  // namespace tapestry
