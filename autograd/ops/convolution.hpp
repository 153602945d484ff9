#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct ConvolutionOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros around the image, on every side
};

// Cross-correlation of images (B, C, H, W) with weight (O, C, K, K) -> (B, O, H', W') with
// H' = ⌊(H + 2 padding - K) / stride⌋ + 1, and W' alike:
//   y[b, o, i, j] = Σ_(c, p, q) weight[o, c, p, q] x[b, c, i stride + p - padding,
//                                                       j stride + q - padding],
// plus bias[o] (O) unless it is empty, x being 0 outside the image (Dumoulin & Visin 2016, arXiv
// 1603.07285, §2). float32 or float64. A block of positions at a time, as a product of the weight
// and the patches under them, so that these stay in the cache.
Tensor convolution2d(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options = {},
                     const Tensor& bias = {});

// The transpose of convolution2d as a linear map, that is its gradient by the image (ibid., §4):
// features (B, O, H', W') with weight (O, C, K, K) -> images (B, C, height, width), plus bias (C)
// unless it is empty. Several sizes have features of one size; 0 is the smallest, (H' - 1) stride +
// K - 2 padding.
struct TransposedConvolutionOptions {
  std::int64_t stride = 1, padding = 0;
  std::int64_t height = 0, width = 0;
};
Tensor transposed_convolution2d(const Tensor& x, const Tensor& weight,
                                const TransposedConvolutionOptions& options = {},
                                const Tensor& bias = {});

}  // namespace tapestry
