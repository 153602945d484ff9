#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/task.hpp"
#include "train/tools/doctor/dataset_statistics.hpp"
#include "train/tools/plan/plan.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {

// Some examples of a split, and the batch that they make.
struct Examples {
  std::vector<std::int64_t> numbers{};
  Batch batch{};
};
Examples examples_of(const Dataset& data, std::vector<std::int64_t> numbers);

// A split that no step reads.
struct EvaluationSplit {
  std::string name{};  // "validation" or "test"
  const Dataset* data = nullptr;
  DatasetStatistics statistics{};
};

// A training that is examined: its config, its task, and its model before the first step. If its
// steps are slow, the context and the batches are made smaller.
class TrainingUnderTest {
 public:
  // `plan`: made before the model takes memory.
  explicit TrainingUnderTest(ConfigWith config_with,
                             std::optional<TrainingPlan> plan = std::nullopt);

  const ConfigWith& config_with() const { return config_with_; }  // the config as given,
  const Config& config() const { return config_; }                // the config as examined
  const std::string& remark() const { return remark_; }  // the keys that differ; may be empty
  double step_s() const { return step_s_; }              // estimated, of a step as examined
  const std::optional<TrainingPlan>& plan() const { return plan_; }

  Task& task() { return *task_; }
  std::vector<Parameter*> parameters() { return task_->model().parameters(); }
  void reset();             // restores all parameters as before the first step, in float32
  void reset_in_float64();  // the same in float64, each moved a little: no ReLU is at its kink

  // The array of weights that has grown most since before the first step, and its factor. Arrays of
  // zeros are left out.
  struct Growth {
    std::string name{};
    double factor = 0;
  };
  Growth largest_growth();

  // The learning rate at which one batch was overfitted; 0: none was tried or found.
  void record_overfitting_rate(double rate) { overfitting_rate_ = rate; }
  double overfitting_rate() const { return overfitting_rate_; }

  // Returns the task as another process would construct it, without traces of this one's steps.
  std::unique_ptr<Task> fresh_task() const;

  const DatasetStatistics& training_statistics();           // computed once
  const std::vector<EvaluationSplit>& evaluation_splits();  // validation, and test if there is one

  // Returns at most `count` training examples, those that a training reads first.
  Examples training_examples(std::int64_t count) const;

 private:
  void measure_step();
  void shorten_context();
  void shrink_batch();

  ConfigWith config_with_;
  std::optional<TrainingPlan> plan_;
  Config config_;
  std::unique_ptr<Task> task_;
  std::vector<Array> first_values_;
  std::optional<DatasetStatistics> training_;
  std::vector<EvaluationSplit> evaluation_splits_;
  std::string remark_;
  double step_s_ = 0, overfitting_rate_ = 0;
  bool is_reset_in_float64_ = false;
};

// Returns a training step's loss without dropout, after any warm-up of its terms. Each example has
// noise of its own: its loss is the same in every batch.
Loss quiet_loss(Task& task, const Config& config, const Examples& examples);

// Used by checks that do not depend on the configured rate.
inline constexpr double usual_rate = 1e-3;

// Steps of the product's trainer on the training under test, from the present weights on, with a
// new optimizer. Nothing is recorded.
class TrialTraining {
 public:
  explicit TrialTraining(TrainingUnderTest& under_test);
  // Each step is on these examples, without dropout. `optimizer`: instead of the configured one.
  TrialTraining(TrainingUnderTest& under_test, const Examples& examples,
                const std::string& optimizer = "");

  // Takes a step. Returns its loss before it; NaN if the loss or its gradient is not finite, which
  // moves nothing.
  double step(double learning_rate);
  // Returns the gradients of the next step, which is not taken.
  Gradients gradients() { return trainer_.compute().gradients; }

 private:
  Config config_;
  std::unique_ptr<Task> task_;
  std::atomic<bool> stop_ = false;
  Ranks alone_;
  Trainer trainer_;
};

// Converts a model to float64 and moves every parameter a little: with biases of 0, features of 0
// meet ReLU at its kink, where it has no derivative to check.
void convert_for_gradcheck(Module& model);

// Returns a training step's objective on two examples, of a model in float64: the same at each
// call. It uses the task as long as it lives.
std::function<Tensor()> objective_in_float64(Task& task, const Config& config);

// Converts floating inputs to float64.
Batch in_float64(Batch batch);

}  // namespace tapestry
