#pragma once

#include "autograd/adjacency.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// Sparse ops along the edges of a graph of N nodes and E edges, for float32 and float64. Values and
// gradients have the same bits for any number of threads. Each of the first two computes the
// gradients of the other. All throw std::invalid_argument for shapes that do not fit.

// Returns y_j = Σ_{i ∈ N(j)} w_ij x_i, a sparse matrix times a dense one: x (M, F) of the source
// nodes, weights (E, H) by the number of the edge, or empty for ones -> (N, F). Each of H heads
// weighs F / H columns. A node without incoming edges gets zeros.
Tensor neighbor_sum(const Adjacency& graph, const Tensor& x, const Tensor& weights = {});

// Returns s_ij = a_j · b_i for each edge from i to j and each head: a, b (N, F) -> (E, H). It is a
// product of dense matrices of which only the entries of the graph are computed.
Tensor edge_products(const Adjacency& graph, const Tensor& a, const Tensor& b,
                     std::int64_t heads = 1);

// Returns the weights of additive attention, w_ij = softmax over i ∈ N(j) of LeakyReLU(a_j + b_i):
// a (N, H) of the targets, b (M, H) of the sources -> (E, H) by the number of the edge (Veličković
// et al. 2018, arXiv 1710.10903, eq. 3). Fused, because the composition gathers a and b to (E, H)
// and scatters their gradients. Throws std::invalid_argument for a negative slope.
Tensor edge_softmax(const Adjacency& graph, const Tensor& a, const Tensor& b, double slope);

// Reductions over segments of rows: segment s of x (N, F) has the rows [offsets[s], offsets[s +
// 1]), where offsets (S + 1) int32 ascend from 0 to N. A segment is a graph of a batch, with its
// nodes, or a node, with its incoming edges.

Tensor segment_sum(const Tensor& x, const Array& offsets);   // (N, F) -> (S, F); empty: 0
Tensor segment_mean(const Tensor& x, const Array& offsets);  // (N, F) -> (S, F); empty: 0
// Returns the maxima, and divides the gradient among equal ones.
Tensor segment_max(const Tensor& x, const Array& offsets);  // (N, F) -> (S, F); empty: 0

// Returns e^x / Σ e^x within each segment and column, shifted by the maximum: (N, F) -> (N, F).
Tensor segment_softmax(const Tensor& x, const Array& offsets);

}  // namespace tapestry
