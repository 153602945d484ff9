#pragma once

#include <optional>
#include <vector>

#include "train/distributed/gradient_sum.hpp"
#include "train/trainer/step.hpp"

namespace tapestry {

// What a step's micro-batches come to, of all ranks together, in an order that depends on no number
// of ranks. Of one process, every method only adds.
class StepSums final {
 public:
  StepSums(Ranks& ranks, const std::vector<Parameter*>& parameters, const Config& config);

  // Begins a step whose micro-batches of this rank are `inputs`.
  void begin(const StepInputs& inputs);
  // Returns the loss terms of the whole step, by which gradients are divided.
  double count();
  // Adds one micro-batch: its loss, the units that it has, and whether this rank was told to stop.
  void add(Tape& tape, Loss loss, double units, bool is_told_to_stop);
  // Returns the sums, and how far the gradient exceeds train.clip_norm.
  ComputedStep finish(StepInputs inputs);

  const GradientSum& gradients() const { return gradients_; }
  GradientSum& gradients() { return gradients_; }
  bool keeps_own_shard() const { return keeps_own_shard_; }  // of gradients and optimizer state

 private:
  // What one micro-batch of a step measured.
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
  std::optional<double> count_;  // of the step; none: not asked for yet
};

}  // namespace tapestry
