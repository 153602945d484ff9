#pragma once

#include <vector>

#include "autograd/tape.hpp"
#include "optim/clip.hpp"
#include "train/task.hpp"

namespace tapestry {

Sampler make_sampler(Task& task, const Config& config);  // of the training examples

// What a step is computed from, and can be computed from again to the same bits, as long as no
// parameter has moved: its parts that are this rank's.
struct StepInputs {
  Task& task;
  const Config& config;
  std::int64_t step = 0;               // those done before it
  std::int64_t position = 0;           // training examples read before it
  std::int64_t first_micro_batch = 0;  // of this rank's
  std::vector<Batch> batches = {};     // one a part
  double count = 0;                    // loss terms of all parts

  Loss loss(std::size_t i) const;  // of batches[i], with the noise of its part

  // Of the training data, which batches[i] is made of; and those of all parts, in their order.
  std::vector<std::int64_t> examples(std::size_t i) const;
  std::vector<std::int64_t> examples() const;
};

// What a step computes before it moves anything.
struct ComputedStep {
  StepInputs inputs;
  MetricSums averages;  // of all ranks
  double units = 0;     // tokens or examples of all ranks, of which the throughput is counted
  bool is_told_to_stop = false;   // a rank was, by a signal or the time limit
  Gradients gradients;            // of all micro-batches, not clipped
  bool has_all_gradients = true;  // false: of this rank's shard only
  Clip clip;
};

// Whether the validation split is evaluated after this step: every train.eval_every steps and at
// the last one.
bool is_evaluated(std::int64_t step, const Config& config);

}  // namespace tapestry
