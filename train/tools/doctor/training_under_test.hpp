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

// Examples of a split, and their batch.
struct Examples {
  std::vector<std::int64_t> numbers{};
  Batch batch{};
};
Examples examples_of(const Dataset& data, std::vector<std::int64_t> numbers);

// A split that is not trained on.
struct EvaluationSplit {
  std::string name{};  // "validation" or "test"
  const Dataset* data = nullptr;
  DatasetStatistics statistics{};
};

// A training to examine: its config, its task, and its model before the first step. If steps are
// slow, context and batches are reduced.
class TrainingUnderTest {
 public:
  // Throws as the task's constructor does. `plan` must be made before the model takes memory.
  explicit TrainingUnderTest(ConfigWith config_with,
                             std::optional<TrainingPlan> plan = std::nullopt);

  const ConfigWith& config_with() const { return config_with_; }  // the config as given
  const Config& config() const { return config_; }                // the config that is examined
  // Returns the settings that differ, such as "model.context = 64"; empty if none do.
  const std::string& remark() const { return remark_; }
  // Returns the estimated seconds of a step of config(); 0 if a step throws.
  double step_s() const { return step_s_; }
  const std::optional<TrainingPlan>& plan() const { return plan_; }

  Task& task() { return *task_; }
  std::vector<Parameter*> parameters() { return task_->model().parameters(); }
  void reset();             // restores the initial parameters, in float32
  void reset_in_float64();  // also moves each parameter slightly: no ReLU is at its kink

  // The weight array with the largest growth since before the first step, and its factor. Arrays
  // that were zeros are ignored.
  struct Growth {
    std::string name{};
    double factor = 0;
  };
  Growth largest_growth();

  // Record and return the learning rate at which one batch was overfitted; 0 if none was tried or
  // found.
  void record_overfitting_rate(double rate) { overfitting_rate_ = rate; }
  double overfitting_rate() const { return overfitting_rate_; }

  const DatasetStatistics& training_statistics();  // computes the statistics at the first call
  // Returns validation, and test if it exists.
  const std::vector<EvaluationSplit>& evaluation_splits();

  // Returns at most `count` training examples, the first ones that a training reads.
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
// its own noise, so that its loss is the same in every batch.
Loss quiet_loss(Task& task, const Config& config, const Examples& examples);

// Learning rate of checks that do not depend on the configured one.
inline constexpr double usual_rate = 1e-3;

// A trainer of the training under test, which starts with the current weights and a new optimizer,
// and records nothing.
class TrialTraining {
 public:
  explicit TrialTraining(TrainingUnderTest& under_test);
  // Each step reads these examples, without dropout. `optimizer`: used instead of the configured
  // one.
  TrialTraining(TrainingUnderTest& under_test, const Examples& examples,
                const std::string& optimizer = "");

  // Takes a step and returns the loss before the step. If the loss or its gradient is not finite,
  // returns NaN and moves no parameter.
  double step(double learning_rate);
  // Returns the gradients of the next step, without taking it.
  Gradients gradients() { return trainer_.compute().gradients; }

 private:
  Config config_;
  std::unique_ptr<Task> task_;
  std::atomic<bool> stop_ = false;
  Ranks alone_;
  Trainer trainer_;
};

// Converts a model to float64 and moves every parameter that is not fixed slightly: with biases of
// 0, features of 0 are at the kink of ReLU, where it has no derivative.
void convert_for_gradcheck(Module& model);

// Returns a training step's objective on two examples, of a model in float64, with the same value
// at each call. The task must outlive it.
std::function<Tensor()> objective_in_float64(Task& task, const Config& config);

// Returns the batch with float32 inputs converted to float64.
Batch in_float64(Batch batch);

}  // namespace tapestry
