#pragma once

#include <span>
#include <vector>

#include "autograd/parameter.hpp"
#include "autograd/tape.hpp"
#include "optim/array_part.hpp"

namespace tapestry {

struct Clip {
  double norm;   // √Σ g² over all parameters
  double scale;  // the factor that brings it down to the limit: at most 1
};

// Global-norm clipping (Pascanu et al. 2013, arXiv 1211.5063, algorithm 1). A limit of 0 measures
// only. The optimiser applies the factor, so that it costs no pass of its own.
Clip clip(const Gradients& gradients, const std::vector<Parameter*>& parameters, double limit);

// The same of the squares' sums of all fragments, wherever these were computed.
Clip clip_of(const std::vector<Fragment>& fragments, std::span<const double> squares, double limit);

}  // namespace tapestry
