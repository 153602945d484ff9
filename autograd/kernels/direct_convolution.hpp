#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// The sizes of a convolution of stride 1: images (B, C, H, W) to features (B, O, h, w), with h = H
// + 2 padding - K + 1, and w likewise.
struct DirectConvolution {
  std::int64_t B, C, H, W, O, h, w, K, padding;

  std::int64_t patch() const { return C * K * K; }  // number of elements of a patch
};

// Computes the features (B, O, h, w) of a convolution from registers, without a copy of each patch:
// weight (O, C, K, K), bias (O) or empty.
void direct_features(const DirectConvolution& g, const Array& images, const Array& weight,
                     const Array& bias, Array& features);

// Writes the gradient of the weight as partial sums (sums, O, C K K), each of the next `length`
// images.
void direct_weight(const DirectConvolution& g, const Array& images, const Array& features,
                   std::int64_t length, Array& sums);

}  // namespace tapestry
