#pragma once

#include <cstdint>

namespace tapestry {

enum class Decay { constant, linear, cosine };

struct Schedule {
  Decay decay = Decay::constant;
  double peak = 1e-3;       // the learning rate after warm-up
  double floor = 0;         // of the last step, for linear and cosine
  std::int64_t warmup = 0;  // steps of a linear rise to the peak
  std::int64_t steps = 1;   // until linear and cosine have ended; then the floor stays

  // The learning rate of step 0, 1, …; a decay of one step alone has no time to end.
  double at(std::int64_t step) const;
};

}  // namespace tapestry
