#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace tapestry {

// The parameters of one part of a model: "blocks.*" stands for all blocks.
struct ModuleSize {
  std::string name;
  std::int64_t parameters = 0;
};

// What one process of a training holds, in bytes but for the counts.
struct MemoryPlan {
  std::int64_t parameters = 0, trained = 0;  // numbers
  std::vector<ModuleSize> modules{};         // in the order of the model
  std::int64_t data = 0;                     // arrays of examples
  std::int64_t weights = 0;
  std::int64_t gradients = 0;    // a number for each that is trained
  std::int64_t optimizer = 0;    // its state: the share of this rank alone, where it is sharded
  std::int64_t average = 0;      // of the weights
  std::int64_t activations = 0;  // what the forward pass of a part of a step keeps for the backward
  // All arrays together at most: in a step, in an evaluation, when a checkpoint is made.
  std::int64_t step_peak = 0, evaluation_peak = 0, checkpoint_peak = 0;
  std::int64_t held = 0;        // asked of the system, for those arrays and beside them
  std::int64_t checkpoint = 0;  // bytes of a checkpoint's tensors
  double flops = 0;             // of a step's products and attention, by this rank

  std::int64_t peak() const;  // of the arrays
};

struct MemoryPlanOptions {
  int rank = 0, ranks = 1;
  double seconds = 2;  // to look for larger batches, in each split
};

// Goes through steps, evaluations and a checkpoint of a training by their shapes alone
// (autograd/dry_run.hpp), with the batches that it would read: nothing is computed, and no
// memory is taken but for the data. Where batches differ in length, the peaks are those
// of up to 400 of them, as far as the seconds reach. InputError as a training would have.
MemoryPlan plan_memory(const Config& config, const MemoryPlanOptions& options = {});

// Of several ranks the first or the last, whichever holds more.
MemoryPlan plan_fullest(const Config& config, const MemoryPlanOptions& options);

}  // namespace tapestry
