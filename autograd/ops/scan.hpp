#pragma once

#include "autograd/tensor.hpp"

// Recurrences along the time axis, from first to last. float32 or float64.
namespace tapestry {

// h_t = g_t ⊙ h_(t-1) + x_t with h_0 = 0: gate g, x (B, T, C) -> h (B, T, C). The gate may be of
// any shape that broadcasts to x's. Fused for a measured gain: composed, each step's slice would
// cost its backward pass a copy of the whole.
Tensor linear_recurrence(const Tensor& gate, const Tensor& x);

// h_t = tanh(x_t + W h_(t-1)), a simple recurrent network (Elman 1990, "Finding Structure in
// Time"): x (B, T, H), weight W (H, H), initial h_0 (B, H) or empty for zeros -> h (B, T, H).
// Fused for the same reason, and so that W's gradient is one product.
Tensor tanh_recurrence(const Tensor& x, const Tensor& weight, const Tensor& initial = {});

}  // namespace tapestry
