#include "optim/clip.hpp"

#include <cmath>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/profile.hpp"

namespace tapestry {

Clip clip(const Gradients& gradients, const std::vector<Parameter*>& parameters, double limit) {
  double squares = 0, bytes = 0;
  for (const Parameter* parameter : parameters)
    if (const Array* gradient = gradients.find(*parameter)) {
      squares += sum_of_squares(*gradient);
      bytes += gradient->bytes();
    }
  profile::mark(profile::Phase::step, "clip", nullptr, bytes);
  const double norm = std::sqrt(squares);
  return {norm, limit > 0 && norm > limit ? limit / norm : 1.0};
}

}  // namespace tapestry
