#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct PoolOptions {
  std::int64_t kernel = 2, stride = 2;  // K; pixels from one window to the next
  std::int64_t padding = 0;             // pixels around the image, at most K / 2
};

// Ops on images: x (B, C, H, W) -> (B, C, H', W'), where H' = ⌊(H + 2 padding - K) / stride⌋ + 1,
// and W' likewise. They throw std::invalid_argument for other ranks and options, and if H' or W' is
// 0.

// Returns the largest element of each window of K × K pixels. Padding is never the largest. The
// gradient goes to the first of equal elements, row by row. NaN is larger than any number.
Tensor max_pool2d(const Tensor& x, const PoolOptions& options = {});

// Returns the mean of each window of K × K pixels, where padding counts as zeros.
Tensor average_pool2d(const Tensor& x, const PoolOptions& options = {});

}  // namespace tapestry
