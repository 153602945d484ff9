#pragma once

#include "autograd/tensor.hpp"

// What random feature maps need beside matrix products. float32 or float64.
namespace tapestry {

// x (..., D, T) -> √(1/D) [sin x, cos x] (..., 2D, T) (Peng et al. 2021, arXiv 2103.02143, §2.2).
// Fused for a measured gain: sine and cosine share the reduction of their argument, and the
// gradient, which reads the result, needs none.
Tensor sine_features(const Tensor& x);

// x (..., D) -> x / |x| (..., D); zeros stay zeros, and get no gradient. Fused for a measured gain:
// the composition walks the memory six times.
Tensor unit_rows(const Tensor& x);

}  // namespace tapestry
