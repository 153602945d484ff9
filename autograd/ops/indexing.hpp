#pragma once

#include "autograd/tensor.hpp"

// Ops that choose elements by an index or a condition, for float32 and float64. They throw
// std::invalid_argument for shapes, dtypes and axes that do not fit.
namespace tapestry {

// Returns the elements of x that an index (int32) names along one axis. An index of x's rank names
// one element for each of its own, as torch.gather does: y[i][j][k] = x[i][index[i][j][k]][k] for
// axis 1; x (A, N, C), index (A, M, C) -> (A, M, C), where the index may be shorter along the other
// axes. An index of rank 1 names whole slices, as torch.index_select does: x (A, N, C), index (M)
// -> (A, M, C). Throws std::invalid_argument for an index outside [0, N).
Tensor gather(const Tensor& x, int axis, const Array& index);

// Returns x with each element of `source` added where gather() would read it, as torch.scatter_add
// and, for an index of rank 1, torch.index_add do: x (A, N, C), index (A, M, C) or (M), source
// (A, M, C) -> (A, N, C). Elements with the same index are added in their order in `source`, with
// the same bits on any number of threads. If x is zeros and no index occurs twice, the result is
// that of torch.scatter. Throws std::invalid_argument for an index outside [0, N).
Tensor scatter_add(const Tensor& x, int axis, const Array& index, const Tensor& source);

// Returns a where the condition (int32) is not 0, else b; all three are broadcast to one shape. An
// element that is not chosen has no effect, NaN included, and a gradient of 0.
Tensor where(const Array& condition, const Tensor& a, const Tensor& b);

}  // namespace tapestry
