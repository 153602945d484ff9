#pragma once

#include "autograd/tensor.hpp"

// Over runs of rows: segment s of x (N, F) is the rows [offsets[s], offsets[s + 1]), with offsets
// (S + 1) int32 that rise from 0 to N. The nodes of each graph of a batch, or the edges that lead
// to each node. float32 or float64; the same bits at any number of threads.
namespace tapestry {

Tensor segment_sum(const Tensor& x, const Array& offsets);   // (N, F) -> (S, F); empty: 0
Tensor segment_mean(const Tensor& x, const Array& offsets);  // (N, F) -> (S, F); empty: 0
// Equal maxima share the gradient.
Tensor segment_max(const Tensor& x, const Array& offsets);  // (N, F) -> (S, F); empty: 0

// e^x / Σ e^x within each segment and column, shifted by its maximum: (N, F) -> (N, F).
Tensor segment_softmax(const Tensor& x, const Array& offsets);

}  // namespace tapestry
