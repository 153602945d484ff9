#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct UnfoldOptions {
  std::int64_t width = 3;              // K: steps of a window, at least 1
  std::int64_t stride = 1;             // steps from one window to the next, at least 1
  std::int64_t before = 0, after = 0;  // zeros around the sequence
};

// The windows of a sequence, each laid out as one row: x (B, T, C) -> (B, T', K · C) with
// T' = ⌊(before + T + after - K) / stride⌋ + 1, or 0 where that is shorter than a window. A linear
// map of it is a convolution.
Tensor unfold(const Tensor& x, const UnfoldOptions& options);

}  // namespace tapestry
