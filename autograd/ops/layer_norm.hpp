#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

// x (..., C), weight (C), bias (C) -> weight (x - mean) / √(variance + epsilon) + bias, over the
// last axis (Ba et al. 2016, arXiv 1607.06450, eq. 4; the biased variance). Fused for a measured
// gain: the composition walks the memory eight times.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon = 1e-5);

}  // namespace tapestry
