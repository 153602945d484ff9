#pragma once

#include <cstdint>

namespace tapestry {

enum class Decay { constant, linear, cosine };

struct Schedule {
  Decay decay = Decay::constant;
  double peak = 1e-3;       // the learning rate after warm-up
  double floor = 0;         // where linear and cosine end, one step after the last
  std::int64_t warmup = 0;  // steps of a linear rise to the peak
  std::int64_t steps = 1;   // of the whole training

  // The learning rate of step 0, 1, …, steps - 1.
  double at(std::int64_t step) const;
};

}  // namespace tapestry
