#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// Computes y = weight x̂ + bias for each row, with x̂ = (x - mean) · scale and scale = 1 / √(variance
// + epsilon): x, y (rows, C); weight, bias (C); mean, scale (rows).
void layer_norm_forward(const Array& x, const Array& weight, const Array& bias, double epsilon,
                        Array& y, Array& mean, Array& scale);

// Computes dx = scale (h - mean(h) - x̂ mean(h x̂)) with h = weight dy, dweight = Σ dy x̂ and dbias =
// Σ dy.
void layer_norm_backward(const Array& dy, const Array& x, const Array& weight, const Array& mean,
                         const Array& scale, Array& dx, Array& dweight, Array& dbias);

// The normalized columns of x (..., C): `heads` groups of D columns, from column `first` on.
struct RmsNormShape {
  std::int64_t rows = 0, C = 0, first = 0, heads = 1, D = 0;
};

// Computes y = weight x · scale for each head of each row, with scale = 1 / √(mean(x²) + epsilon),
// and copies the other columns: weight (D), scale (rows · heads).
void rms_norm_forward(const RmsNormShape& shape, const Array& x, const Array& weight,
                      double epsilon, Array& y, Array& scale);

// Computes dx = scale (h - x̂ mean(h x̂)) with h = weight dy and x̂ = x · scale, and dweight = Σ dy x̂.
// dx may be the array of dy.
void rms_norm_backward(const RmsNormShape& shape, const Array& dy, const Array& x,
                       const Array& weight, const Array& scale, Array& dx, Array& dweight);

}  // namespace tapestry
