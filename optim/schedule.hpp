#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tapestry {

enum class Decay { constant, linear, cosine, exponential, stable_linear, inverse_sqrt };

// A schedule of the learning rate: a linear warm-up, then a decay.
// - linear, cosine: from the end of the warm-up to the last step (cosine: Loshchilov & Hutter 2016,
//   arXiv 1608.03983, eq. 5, without restarts).
// - exponential: as the others, by the same factor at each step; the floor must be above 0.
// - stable_linear: linear in the last `cooldown` steps, constant before them (warm-up–stable–decay;
//   Hu et al. 2024, arXiv 2404.06395, eq. 1; linear as in Hägele et al. 2024, arXiv 2405.18392).
// - inverse_sqrt: in proportion to 1 / √step (Vaswani et al. 2017, arXiv 1706.03762, eq. 3).
struct Schedule {
  Decay decay = Decay::constant;
  double peak = 1e-3;         // the learning rate after the warm-up
  double floor = 0;           // the learning rate of the last step, except for inverse_sqrt
  std::int64_t warmup = 0;    // number of steps of the linear rise to the peak
  std::int64_t steps = 1;     // number of steps until the floor is reached, which then stays
  std::int64_t cooldown = 0;  // number of steps of the decay of stable_linear

  // Returns the number of steps whose rate depends on neither `steps` nor `cooldown`: those of the
  // warm-up and of stable_linear's constant rate. Not of use for constant and inverse_sqrt, of
  // which no rate depends on them.
  std::int64_t stable_steps() const {
    return decay == Decay::stable_linear ? std::max(warmup, steps - cooldown) : warmup;
  }

  // Returns the learning rate of step 0, 1, …
  double at(std::int64_t step) const {
    if (step < warmup) return peak * (step + 1) / (warmup + 1);
    if (decay == Decay::constant) return peak;
    if (decay == Decay::inverse_sqrt) return peak * std::sqrt((warmup + 1.0) / (step + 1.0));
    if (decay == Decay::stable_linear && step < stable_steps()) return peak;
    // The last step at the peak.
    const std::int64_t begin = decay == Decay::stable_linear ? stable_steps() - 1 : warmup;
    const double span = std::max<std::int64_t>(1, steps - 1 - begin);
    const double progress = std::min(1.0, (step - begin) / span);
    if (decay == Decay::exponential) return peak * std::pow(floor / peak, progress);
    const double left =
        decay == Decay::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * progress)) : 1 - progress;
    return floor + (peak - floor) * left;
  }
};

}  // namespace tapestry
