#pragma once

#include <span>
#include <vector>

#include "autograd/tape.hpp"
#include "autograd/tensor.hpp"
#include "optim/array_part.hpp"

namespace tapestry {

struct Clip {
  double norm;  // √Σ g² over all gradients
  // The factor that reduces the norm to the limit, at most 1. It is 1 for a norm that is not
  // finite: do not step with such gradients.
  double scale;
};

// Returns the global norm of the gradients and the factor that clips it to the limit (Pascanu et
// al. 2013, arXiv 1211.5063, algorithm 1); a limit of 0 only measures. The optimizer applies the
// factor.
Clip clip(const Gradients& gradients, const std::vector<Parameter*>& parameters, double limit);

// Returns the norm and the factor, given the sum of squares of each fragment.
Clip clip_of(const std::vector<Fragment>& fragments, std::span<const double> squares, double limit);

}  // namespace tapestry
