#pragma once

#include "autograd/tensor.hpp"

// Over the last axis, shifted by its maximum so that ±1e4 is safe. float32 or float64.
namespace tapestry {

Tensor softmax(const Tensor& x);  // x (..., n) -> e^x / Σ e^x (..., n); a row of -inf gives zeros
Tensor log_softmax(const Tensor& x);  // x (..., n) -> x - log Σ e^x (..., n)
Tensor logsumexp(const Tensor& x);    // x (..., n) -> log Σ e^x (...)

}  // namespace tapestry
