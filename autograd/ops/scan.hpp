#pragma once

#include "autograd/tensor.hpp"

// Recurrences along the time axis, for float32 and float64. Both throw std::invalid_argument for
// shapes that do not fit.
namespace tapestry {

// Returns h_t = g_t ⊙ h_(t-1) + x_t with h_0 = 0: gate g, x (B, T, C) -> h (B, T, C). The gate may
// have any shape that broadcasts to x. Fused for a measured gain: in a composition the gradient of
// each step's slice is as long as the sequence.
Tensor linear_recurrence(const Tensor& gate, const Tensor& x);

// Returns h_t = tanh(x_t + W h_(t-1)), a simple recurrent network (Elman 1990, "Finding Structure
// in Time"): x (B, T, H), weight W (H, H), initial h_0 (B, H) or empty for zeros -> h (B, T, H).
// Fused for a measured gain as well, and so that the gradient of W is one product.
Tensor tanh_recurrence(const Tensor& x, const Tensor& weight, const Tensor& initial = {});

}  // namespace tapestry
