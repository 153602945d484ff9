#include "optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tapestry {

double Schedule::at(std::int64_t step) const {
  if (step < warmup) return peak * (step + 1) / (warmup + 1);
  if (decay == Decay::constant) return peak;
  const double span = std::max<std::int64_t>(1, steps - 1 - warmup);
  const double progress = std::min(1.0, (step - warmup) / span);
  const double left =
      decay == Decay::linear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return floor + (peak - floor) * left;
}

}  // namespace tapestry
