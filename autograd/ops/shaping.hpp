#pragma once

#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

// Ops that move values without changing them, for float32 and float64. They throw
// std::invalid_argument for shapes and axes that do not fit.

// Returns the same elements in row-major order with another shape, which may have one -1, without a
// copy.
Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape);

// Returns x with its axes in another order: permute(x (A, B, C), {2, 0, 1}) -> (C, A, B). Throws
// std::invalid_argument unless each axis is given once.
Tensor permute(const Tensor& x, const std::vector<int>& axes);

// Returns the elements [begin, end) of one axis: x (..., n, ...) -> (..., end - begin, ...). Throws
// std::invalid_argument for other ranges.
Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end);

// Returns the tensors joined along one axis. Throws std::invalid_argument if there are none, or if
// their other axes or dtypes differ.
Tensor concat(const std::vector<Tensor>& parts, int axis);

// Return the parts of x along one axis, as torch.split and torch.chunk do: parts of these extents,
// or `count` parts of equal extents, of which the last is smaller, and there are fewer, where the
// axis does not divide. split(x (A, 5), {2, 3}, 1) -> (A, 2), (A, 3); chunk(x (A, 5), 2, 1) -> (A,
// 3), (A, 2). concat() joins them again. Throw std::invalid_argument unless the extents are 0 or
// more and add up to that of the axis, and for a count below 1.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& extents, int axis);
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis);

// Returns n tensors of one shape joined along a new axis, as torch.stack does: (A, B) -> (n, A, B)
// for axis 0, (A, B, n) for axis 2 or -1. Throws std::invalid_argument if there are none, or if
// their shapes or dtypes differ.
Tensor stack(const std::vector<Tensor>& parts, int axis);

struct UnfoldOptions {
  std::int64_t width = 3;   // K: number of steps of a window, at least 1
  std::int64_t stride = 1;  // steps from one window to the next, at least 1
};

// Returns the windows of a sequence, each as one row: x (B, T, C) -> (B, T', K · C), where T' =
// ⌊(T - K) / stride⌋ + 1, or 0 for a sequence that is shorter than a window. A linear map of the
// rows is a convolution. Throws std::invalid_argument for other shapes.
Tensor unfold(const Tensor& x, const UnfoldOptions& options);

}  // namespace tapestry
