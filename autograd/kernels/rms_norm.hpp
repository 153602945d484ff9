#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// Which columns of x (..., C) are normalised: heads of D side by side, from column `first` on.
struct RmsNormShape {
  std::int64_t rows = 0, C = 0, first = 0, heads = 1, D = 0;
};

// Each head of each row: y = weight x · scale with scale = 1 / √(mean(x²) + epsilon). The other
// columns of y are x's. weight (D), scale (rows · heads).
void rms_norm_forward(const RmsNormShape& shape, const Array& x, const Array& weight,
                      double epsilon, Array& y, Array& scale);

// dx = scale (h - x̂ mean(h x̂)) with h = weight dy and x̂ = x · scale; dweight = Σ dy x̂. dx may be
// the array of dy.
void rms_norm_backward(const RmsNormShape& shape, const Array& dy, const Array& x,
                       const Array& weight, const Array& scale, Array& dx, Array& dweight);

}  // namespace tapestry
