#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct MatmulOptions {
  bool transpose_a = false;  // the last two axes of a are swapped, without a copy
  bool transpose_b = false;
};

// a (..., M, K) · b (..., K, N) -> (..., M, N). Leading axes broadcast. std::invalid_argument when
// K or the leading axes differ.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});

// x (..., I), weight (O, I), bias (O) or empty -> x · weightᵀ + bias (..., O).
// Fused so that the bias costs no pass of its own and leading axes fold into one product.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace tapestry
