#pragma once

#include "autograd/tensor.hpp"

// Softmax over the last axis, shifted by the maximum, so that large values are safe. float32 or
// float64. Throws std::invalid_argument for a scalar.
namespace tapestry {

Tensor softmax(const Tensor& x);      // x (..., n) -> e^x / Σ e^x (..., n); 0 for a row of -inf
Tensor log_softmax(const Tensor& x);  // x (..., n) -> x - log Σ e^x (..., n); NaN for a row of -inf

}  // namespace tapestry
