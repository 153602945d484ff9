#pragma once

#include <limits>
#include <string>
#include <vector>

#include "train/run/run.hpp"

namespace tapestry {

// The range of values. NaN is neither low nor high.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double magnitudes = 0;  // the sum of |x| of the finite values
  std::int64_t finite = 0, nans = 0, infinities = 0;

  void add(const Array& array);
  std::int64_t count() const { return finite + nans + infinities; }
  double mean_magnitude() const {
    return finite > 0 ? magnitudes / static_cast<double>(finite) : 0;
  }
};

// An op of a module in all its calls during a step: micro-batches, steps of a sequence, and
// activations that are computed again.
struct ReplayedOp {
  std::string module{}, op{};
  std::int64_t calls = 0;
  ValueRange outputs{}, gradients{};  // gradients of the step's mean loss by these outputs
};

struct ReplayedParameter {
  std::string name{};
  ValueRange values{}, gradients{};
};

struct ReplayedExample {
  std::int64_t index = 0;  // index in the training data
  std::string shown{};     // "(1, 8) 3 1 2 0 …"; the first ones only
  std::string text{};      // the tokens as text, if the inputs are tokens
};

// A step that was trained up to and computed under observation, without moving the parameters.
struct Replay {
  std::string from{};  // "the start", or a checkpoint
  std::int64_t from_step = 0, step = 0;
  Metrics values{};  // loss and the task's metrics
  double gradient_norm = 0, learning_rate = 0;
  std::string fault{};  // NaN or infinity with its cause; empty if the step is finite
  std::vector<ReplayedExample> examples{};
  std::vector<ReplayedOp> ops{};  // in the order of their first calls
  std::vector<ReplayedParameter> parameters{};
};

// Trains from the run's latest checkpoint before the step, or from its start. Throws InputError for
// a step that the run's config does not have, and if the data differ.
Replay replay(const Run& run, std::int64_t step, const std::vector<std::string>& overrides);

}  // namespace tapestry
