#pragma once

#include <optional>
#include <vector>

#include "optim/optimizer.hpp"
#include "train/distributed/gradient_sum.hpp"
#include "train/task.hpp"

namespace tapestry {

// Returns the sampler of the training examples.
Sampler make_sampler(Task& task, const Config& config);

// The inputs of a step: this rank's micro-batches. The step can be computed from them again, with
// the same bits, if no parameter has moved.
struct StepInputs {
  Task& task;
  const Config& config;
  std::int64_t step = 0;               // number of steps before this one
  std::int64_t position = 0;           // number of training examples read before this step
  std::int64_t first_micro_batch = 0;  // index of the first micro-batch of this rank
  std::vector<Batch> batches = {};     // one batch per micro-batch
  bool are_given = false;  // by a function (TrainingData::batches): no examples are known
  double count = 0;        // number of loss terms of the whole step

  // Returns the loss of batches[i], with the noise of its micro-batch.
  Loss loss(std::size_t i) const;

  // Return the indices of the training examples in batches[i], and in the whole step.
  std::vector<std::int64_t> examples(std::size_t i) const;
  std::vector<std::int64_t> examples() const;
};

// The result of a step before it moves parameters.
struct ComputedStep {
  StepInputs inputs;
  MetricSums averages;            // averages over all ranks
  double units = 0;               // number of tokens or examples of all ranks, for the throughput
  bool is_told_to_stop = false;   // whether a signal or the time limit told a rank to stop
  Gradients gradients;            // gradients of all micro-batches, not clipped
  bool has_all_gradients = true;  // false: only those of this rank's shard
  Clip clip;
};

// The sums of a step's micro-batches over all ranks, added in an order that does not depend on the
// number of ranks. With one process, every function only adds.
class StepSums final {
 public:
  StepSums(Ranks& ranks, const Optimizer& optimizer, const Config& config);

  // Begins a step with `inputs` as the micro-batches of this rank.
  void begin(const StepInputs& inputs);
  // Returns the number of loss terms of the whole step, by which gradients are divided.
  double count();
  // Adds a micro-batch: its loss and units, and whether this rank was told to stop.
  void add(Tape& tape, Loss loss, double units, bool is_told_to_stop);
  // Returns the sums, with the factor by which train.clip_norm scales the gradient.
  ComputedStep finish(StepInputs inputs);

  const GradientSum& gradients() const { return gradients_; }
  GradientSum& gradients() { return gradients_; }
  // Returns whether this rank has only its shard of gradients and optimizer state.
  bool keeps_own_shard() const { return keeps_own_shard_; }

 private:
  // The measurements of one micro-batch.
  struct Measured {
    bool is_told_to_stop = false;
    double units = 0;
    MetricSums averages{};
    static void fields(auto& visit, auto& self) {
      visit(self.is_told_to_stop, self.units, self.averages);
    }
  };

  Ranks& ranks_;
  double clip_norm_;
  bool keeps_own_shard_;
  GradientSum gradients_;
  Ranks::Gathering<std::vector<double>> counts_;
  std::vector<Measured> measured_;
  std::optional<double> count_;  // number of the step's targets; none if it is not computed yet
};

// Returns whether the validation split is evaluated after this step: every train.eval_every steps
// and at the last one.
bool is_evaluated(std::int64_t step, const Config& config);

}  // namespace tapestry
