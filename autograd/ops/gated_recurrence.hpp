#pragma once

#include "autograd/tensor.hpp"

// Recurrences with gates, for float32 and float64, over inputs that are already multiplied by their
// weights, which is one product for all steps. Both throw std::invalid_argument for shapes that do
// not fit. Fused for a measured gain: a step is one product, by weights that are packed once for
// the sequence, and one pass over the gates. Move x into the call, so that its memory is reused.
namespace tapestry {

// Returns the outputs h_t of an LSTM (Hochreiter & Schmidhuber 1997, "Long Short-Term Memory", with
// the forget gate of Gers et al. 2000), with a = x_t + W h_(t-1):
//
//   i, f, o = σ(a_i), σ(a_f), σ(a_o)   g = tanh(a_g)
//   c_t = f ⊙ c_(t-1) + i ⊙ g          h_t = o ⊙ tanh(c_t)
//
// x (B, T, 4H) and weight W (4H, H) in PyTorch's order i, f, g, o; initial h_0 and c_0 as (B, 2H),
// or empty for zeros -> h (B, T, H). Unless `last` is null, it becomes h_T and c_T (B, 2H), a
// constant without gradient.
Tensor lstm(Tensor x, const Tensor& weight, const Tensor& initial = {}, Array* last = nullptr);

// Returns the states h_t of a gated recurrent unit (Cho et al. 2014, arXiv 1406.1078), whose reset
// gate acts after the product as in PyTorch, with u = W h_(t-1):
//
//   r, z = σ(x_r + u_r), σ(x_z + u_z)   n = tanh(x_n + r ⊙ (u_n + b))
//   h_t = (1 - z) ⊙ n + z ⊙ h_(t-1)
//
// x (B, T, 3H) and weight W (3H, H) in PyTorch's order r, z, n; bias b (H) or empty; initial h_0
// (B, H), or empty for zeros -> h (B, T, H).
Tensor gru(Tensor x, const Tensor& weight, const Tensor& bias = {}, const Tensor& initial = {});

}  // namespace tapestry
