#pragma once

#include <limits>
#include <string>
#include <vector>

#include "train/run/run.hpp"

namespace tapestry {

// What values lie between. NaN is neither low nor high.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double magnitudes = 0;  // the sum of |x| of those that are finite
  std::int64_t finite = 0, nans = 0, infinities = 0;

  void add(const Array& array);
  std::int64_t count() const { return finite + nans + infinities; }
  double mean_magnitude() const {
    return finite > 0 ? magnitudes / static_cast<double>(finite) : 0;
  }
};

// An op of a module, in all its calls during a step: parts, moments of a sequence, and once more
// where activations are computed again.
struct ReplayedOp {
  std::string module{}, op{};
  std::int64_t calls = 0;
  ValueRange outputs{}, gradients{};  // gradients: of the step's mean loss, by these outputs
};

struct ReplayedParameter {
  std::string name{};
  ValueRange values{}, gradients{};
};

struct ReplayedExample {
  std::int64_t index = 0;  // of the training data
  std::string shown{};     // "(1, 8) 3 1 2 0 …"; the first ones only
  std::string text{};      // that these numbers stand for, where they are tokens
};

// One step, trained again up to it and computed under observation, but not done.
struct Replay {
  std::string from{};  // "the start", or a checkpoint
  std::int64_t from_step = 0, step = 0;
  Metrics values{};  // of the step: its loss, and the task's own figures
  double gradient_norm = 0, learning_rate = 0;
  std::string fault{};  // with where it comes from; empty: the step is in order
  std::vector<ReplayedExample> examples{};
  std::vector<ReplayedOp> ops{};  // in the order of their first calls
  std::vector<ReplayedParameter> parameters{};
};

// From the latest of the run's checkpoints that stands before the step, or from its start.
// InputError for a step that the run's config does not have, and where the data are others.
Replay replay(const Run& run, std::int64_t step, const std::vector<std::string>& overrides);

}  // namespace tapestry
