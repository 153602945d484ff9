#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// Rows x̂ = (x - mean) · scale with scale = 1 / √(variance + epsilon); y = weight x̂ + bias.
// x, y (rows, C); weight, bias (C); mean, scale (rows).
void layer_norm_forward(const Array& x, const Array& weight, const Array& bias, double epsilon,
                        Array& y, Array& mean, Array& scale);

// dx = scale (h - mean(h) - x̂ mean(h x̂)) with h = weight dy; dweight = Σ dy x̂; dbias = Σ dy.
void layer_norm_backward(const Array& dy, const Array& x, const Array& weight, const Array& mean,
                         const Array& scale, Array& dx, Array& dweight, Array& dbias);

}  // namespace tapestry
