#pragma once

#include <limits>
#include <string>
#include <vector>

#include "train/run/run.hpp"

namespace tapestry {

// The range of values. NaN counts neither for `low` nor for `high`.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double magnitudes = 0;  // sum of |x| over the finite values
  std::int64_t finite = 0, nans = 0, infinities = 0;

  void add(const Array& array);  // ignores arrays of int32
  std::int64_t count() const { return finite + nans + infinities; }
  double mean_magnitude() const {
    return finite > 0 ? magnitudes / static_cast<double>(finite) : 0;
  }
};

// An op of a module, with all its calls in a step: in micro-batches, in steps of a sequence, and in
// recomputed activations.
struct ReplayedOp {
  std::string module{}, op{};
  std::int64_t calls = 0;
  // Gradients of the step's mean loss with respect to the outputs.
  ValueRange outputs{}, gradients{};
};

// An entry of the tape of a step's first micro-batch: one call of an op.
struct ReplayedEntry {
  std::string module{}, op{};
  Shape shape{};                      // of the output
  std::vector<std::size_t> inputs{};  // earlier entries whose outputs it reads
  double norm = 0, gradient_norm = 0;  // √Σx² of the output, and of its gradient as in ReplayedOp
  // Seconds of the op and of its pullback; NaN for the first op and the last pullback of a step,
  // whose beginning or end is not observed.
  double forward_s = std::numeric_limits<double>::quiet_NaN();
  double backward_s = std::numeric_limits<double>::quiet_NaN();
};

struct ReplayedParameter {
  std::string name{};
  ValueRange values{}, gradients{};
};

struct ReplayedExample {
  std::int64_t index = 0;  // index in the training data
  // Shape and first numbers: "(1, 8) 3 1 2 0 …"; empty after the first 16 examples.
  std::string shown{};
  std::string text{};  // text of these numbers, if they are tokens
};

// A step that was computed with an observer after the steps before it were trained again. No
// parameter moves.
struct Replay {
  std::string from{};  // "the start", or a checkpoint
  std::int64_t from_step = 0, step = 0;
  Metrics values{};  // loss and the task's metrics
  double gradient_norm = 0, learning_rate = 0;
  std::string fault{};  // why the step is skipped, and the cause; empty if the step is not skipped
  std::vector<ReplayedExample> examples{};
  std::vector<ReplayedOp> ops{};  // in the order of their first calls
  std::vector<ReplayedEntry> tape{};
  std::vector<ReplayedParameter> parameters{};
};

// Trains from the run's last checkpoint before the step, or from the start, and returns the step.
// Throws InputError for a step outside the run's config or after the one in which the run failed,
// if the data differ, and as the constructor of Retraining does.
Replay replay(const Run& run, std::int64_t step, const std::vector<std::string>& overrides);

}  // namespace tapestry
