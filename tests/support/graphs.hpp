#pragma once

#include "autograd/adjacency.hpp"
#include "tests/support/arrays.hpp"

// Graphs for tests.
namespace tapestry {

using Edges = std::vector<Edge>;
using Ints = std::vector<std::int32_t>;

inline Adjacency random_graph(std::int64_t nodes, int edges, std::uint64_t seed) {
  Random random(seed, Stream::data);
  std::vector<Edge> list;
  for (int i = 0; i < edges; ++i)
    list.push_back({static_cast<std::int32_t>(random.below(nodes)),
                    static_cast<std::int32_t>(random.below(nodes))});
  return Adjacency(nodes, list);
}

// Returns (N, N): row j, column i is `edge` if i leads to j, else `none`.
inline Array dense(const Adjacency& graph, double edge, double none) {
  Array matrix = Array::full({graph.nodes(), graph.nodes()}, none, f64);
  for (const auto& [from, to] : graph.list())
    matrix.mutable_values<double>()[to * graph.nodes() + from] = edge;
  return matrix;
}

}  // namespace tapestry
