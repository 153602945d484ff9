#pragma once

#include "autograd/random.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// Element-wise functions, x (...) -> y (...). They throw std::invalid_argument unless x is float32
// or float64.

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);   // returns -inf at 0, NaN below
Tensor sqrt(const Tensor& x);  // returns NaN below 0
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
// Returns x above 0, else slope · x (Maas et al. 2013, "Rectifier nonlinearities improve neural
// network acoustic models", §2). Throws std::invalid_argument unless the slope is finite and >= 0.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// Returns x above 0, else e^x - 1 (Clevert et al. 2015, arXiv 1511.07289, eq. 15, α = 1).
Tensor elu(const Tensor& x);
Tensor gelu(const Tensor& x);       // returns x Φ(x), Hendrycks & Gimpel 2016 (arXiv 1606.08415)
Tensor gelu_tanh(const Tensor& x);  // returns the tanh approximation of gelu, ibid. §2
Tensor silu(const Tensor& x);       // returns x σ(x), ibid. §4

// Returns silu(a) ⊙ b, where a and b are the halves of each row: x (..., 2F) -> (..., F) (SwiGLU;
// Shazeer 2020, arXiv 2002.05202, eq. 6). Throws std::invalid_argument for a scalar and for
// rows of odd length. Fused for a measured gain: the composition copies both halves and their
// gradients.
Tensor swiglu(const Tensor& x);

// Sets each element of x (...) to 0 with probability `rate`, and divides the others by 1 - rate
// (Srivastava et al. 2014, JMLR 15, §10: inverted dropout). Throws std::invalid_argument unless
// 0 <= rate < 1.
Tensor dropout(const Tensor& x, double rate, Random& random);

}  // namespace tapestry
