#pragma once

#include "autograd/adjacency.hpp"
#include "autograd/tensor.hpp"

// Sparse ops along the edges of a graph of N nodes and E edges. Their values and gradients have the
// same bits at any number of threads. float32 or float64. Each of the two gives the gradients of
// the other.
namespace tapestry {

// y_j = Σ_{i ∈ N(j)} w_ij x_i, a sparse matrix times a dense one: x (M, F) of the graph's sources,
// most often its N nodes, weights (E, H) in the graph's order of edges, or empty for ones ->
// (N, F). Each of H heads weighs its own F / H columns. A node that no edge leads to gets zeros.
Tensor neighbour_sum(const Adjacency& graph, const Tensor& x, const Tensor& weights = {});

// s_ij = a_j · b_i for each edge from i to j, head by head: a, b (N, F) -> (E, H), a dense product
// of which only the graph's entries are computed.
Tensor edge_products(const Adjacency& graph, const Tensor& a, const Tensor& b,
                     std::int64_t heads = 1);

}  // namespace tapestry
