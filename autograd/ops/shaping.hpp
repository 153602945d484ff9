#pragma once

#include <vector>

#include "autograd/tensor.hpp"

// Ops that move values without changing them. float32 or float64.
namespace tapestry {

// x -> the same elements in row-major order under `shape`, which may hold one -1. Copies nothing.
Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape);

// Axis i of the result is axis axes[i] of x: permute(x (A, B, C), {2, 0, 1}) -> (C, A, B).
Tensor permute(const Tensor& x, const std::vector<int>& axes);

// x (..., n, ...) -> (..., end - begin, ...): the elements [begin, end) of one axis.
Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end);

// Joins tensors along one axis; the other axes must agree.
Tensor concat(const std::vector<Tensor>& parts, int axis);

}  // namespace tapestry
