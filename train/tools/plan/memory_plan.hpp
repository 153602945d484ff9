#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace tapestry {

// The parameters of a module; "blocks.*" stands for all blocks.
struct ModuleSize {
  std::string name;
  std::int64_t parameters = 0;
};

// The memory of one process of a training, in bytes except for the counts.
struct MemoryPlan {
  std::int64_t parameters = 0, trained = 0;  // numbers
  std::vector<ModuleSize> modules{};         // in the order of the model
  std::int64_t data = 0;                     // arrays of examples
  std::int64_t weights = 0;
  std::int64_t gradients = 0;    // of the trained parameters
  std::int64_t optimizer = 0;    // its state: the shard of this rank, if it is sharded
  std::int64_t average = 0;      // of the weights
  std::int64_t activations = 0;  // that the forward pass of a micro-batch keeps for the backward
  // The most that all arrays hold together: in a step, in an evaluation, in a checkpoint.
  std::int64_t step_peak = 0, evaluation_peak = 0, checkpoint_peak = 0;
  std::int64_t held = 0;        // requested from the system, for those arrays and buffers
  std::int64_t checkpoint = 0;  // bytes of a checkpoint's tensors
  double flops = 0;             // of a step's matrix products and attention, by this rank

  std::int64_t peak() const;  // of the three
};

struct MemoryPlanOptions {
  int rank = 0, ranks = 1;
  double seconds = 2;  // to search for larger batches, in each split
};

// Runs steps, evaluations and a checkpoint of a training as a dry run (autograd/dry_run.hpp), with
// the batches that it would read: nothing is computed, and only the data take memory. If batches
// differ in length, the peaks are those of up to 400 of them, as far as the seconds reach. Throws
// InputError as the training would.
MemoryPlan plan_memory(const Config& config, const MemoryPlanOptions& options = {});

// Returns the plan of the first or the last rank, whichever holds more.
MemoryPlan plan_fullest(const Config& config, const MemoryPlanOptions& options);

}  // namespace tapestry
