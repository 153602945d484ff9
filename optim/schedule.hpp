#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tapestry {

enum class Decay { constant, linear, cosine };

// A schedule of the learning rate: a linear warm-up, then a decay (cosine: Loshchilov & Hutter
// 2016, arXiv 1608.03983, eq. 5, without restarts).
struct Schedule {
  Decay decay = Decay::constant;
  double peak = 1e-3;       // the learning rate after the warm-up
  double floor = 0;         // the learning rate of the last step, for linear and cosine
  std::int64_t warmup = 0;  // number of steps of the linear rise to the peak
  std::int64_t steps = 1;   // number of steps until linear and cosine reach the floor, and stay

  // Returns the learning rate of step 0, 1, …
  double at(std::int64_t step) const {
    if (step < warmup) return peak * (step + 1) / (warmup + 1);
    if (decay == Decay::constant) return peak;
    const double span = std::max<std::int64_t>(1, steps - 1 - warmup);
    const double progress = std::min(1.0, (step - warmup) / span);
    const double left =
        decay == Decay::linear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
    return floor + (peak - floor) * left;
  }
};

}  // namespace tapestry
