#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

// Returns the number of positions of a kernel along an axis, or 0 if the kernel does not fit.
std::int64_t positions_along(std::int64_t pixels, std::int64_t K, std::int64_t stride,
                             std::int64_t padding);

struct ConvolutionOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros around the image, on every side
};

// Returns the cross-correlation of images x (B, C, H, W) with weight (O, C, K, K) -> (B, O, H',
// W'), where H' = ⌊(H + 2 padding - K) / stride⌋ + 1, and W' likewise:
//   y[b, o, i, j] = Σ_(c, p, q) weight[o, c, p, q] x[b, c, i stride + p - padding,
//                                                       j stride + q - padding],
// plus bias[o] (O) unless it is empty; x is 0 outside the image (Dumoulin & Visin 2016, arXiv
// 1603.07285, §2). Throws std::invalid_argument for shapes and options that do not fit, and if H'
// or W' is 0. Small convolutions of stride 1 are computed directly, others by blocks of positions,
// as products with the patches of a block, which stay in the cache.
Tensor convolution2d(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options = {},
                     const Tensor& bias = {});

// The options of a transposed convolution. `height` and `width` choose one of the image sizes that
// convolution2d maps to H' and W'. 0 is the smallest, (H' - 1) stride + K - 2 padding.
struct TransposedConvolutionOptions {
  std::int64_t stride = 1, padding = 0;
  std::int64_t height = 0, width = 0;
};

// Returns the transpose of convolution2d as a linear map, which is its gradient with respect to the
// image (ibid., §4): x (B, O, H', W') with weight (O, C, K, K) -> (B, C, height, width), plus bias
// (C) unless it is empty. Throws std::invalid_argument for sizes and options that do not fit.
Tensor transposed_convolution2d(const Tensor& x, const Tensor& weight,
                                const TransposedConvolutionOptions& options = {},
                                const Tensor& bias = {});

}  // namespace tapestry
