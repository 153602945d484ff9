#pragma once

#include "autograd/random.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// x (...) -> x with each element set to 0 with probability `rate` in [0, 1), the others divided by
// 1 - rate (Srivastava et al. 2014, inverted). Draws x.size() numbers.
Tensor dropout(const Tensor& x, double rate, Random& random);

}  // namespace tapestry
