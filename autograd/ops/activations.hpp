#pragma once

#include "autograd/tensor.hpp"

// Element-wise functions: x (...) -> y (...). float32 or float64, else std::invalid_argument.
namespace tapestry {

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);   // -inf at 0, NaN below
Tensor sqrt(const Tensor& x);  // NaN below 0
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor softplus(const Tensor& x);   // log(1 + e^x)
Tensor gelu(const Tensor& x);       // x Φ(x), Hendrycks & Gimpel 2016 (arXiv 1606.08415)
Tensor gelu_tanh(const Tensor& x);  // its tanh approximation, ibid. §2
Tensor silu(const Tensor& x);       // x σ(x), ibid. §4

// x (..., 2F) -> silu(a) ⊙ b (..., F), where a is the first half of each row and b the second
// (SwiGLU; Shazeer 2020, arXiv 2002.05202, eq. 6). Fused for a measured gain: the composition
// copies both halves, and their gradients.
Tensor swiglu(const Tensor& x);

}  // namespace tapestry
