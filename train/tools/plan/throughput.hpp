#pragma once

#include <cstdint>

#include "train/config/config.hpp"

namespace tapestry {

// Seconds that the parts of a training take on this machine, by one process, all of it measured.
struct Throughput {
  double begin_s = 0;       // until the first step: reading the data, drawing the weights
  double first_step_s = 0;  // which makes buffers, and the optimiser's state
  double step_s = 0;        // of those after it: the median, or the mean where lengths differ
  double fastest_step_s = 0, slowest_step_s = 0;
  std::int64_t steps = 0;   // that were measured
  double evaluation_s = 0;  // of the whole validation split
  double test_s = 0;        // of the whole test split, where there is one
  double checkpoint_s =
      0;  // written in the folder that the process runs in, and synced; 0: it cannot be
  std::int64_t tensor_bytes = 0;  // what arrays held at most meanwhile
};

struct ThroughputOptions {
  double seconds = 5;                 // to spend on steps, and as many again on evaluations
  std::int64_t checkpoint_bytes = 0;  // of which a part is written, and removed
};

// Trains a few steps, evaluates a few batches, and keeps nothing of it. A step that takes longer
// than the seconds is done once.
Throughput measure_throughput(const Config& config, const ThroughputOptions& options);

// What a training of so many steps does, and what it takes at that pace: every evaluation is taken
// to have found a better model, which is saved.
struct RunLength {
  std::int64_t steps = 0, evaluations = 0, checkpoints = 0;
};
RunLength run_length_of(const Config& config);
double seconds_of(const RunLength& run_length, const Throughput& throughput);

}  // namespace tapestry
