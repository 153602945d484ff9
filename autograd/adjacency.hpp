#pragma once

#include <utility>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

struct Edge {
  std::int32_t from, to;
  auto operator<=>(const Edge&) const = default;
};

// The edges of a graph, node by node (compressed sparse rows): what ends at, or starts from, node v
// stands at places [offsets[v], offsets[v + 1]). All int32.
struct SparseRows {
  Array offsets;     // (N + 1)
  Array neighbours;  // (E) the node at the other end, ascending within each row
  Array edges;       // (E) which edge it is
};

// A directed graph of N nodes; an undirected one holds each edge both ways. Edges are numbered by
// the node they lead to, then by the one they come from, and a repeated one counts once. Immutable:
// copies share its memory. Edges may come from nodes of another set, its sources: so stand the
// entries of a sparse matrix, each of which leads from its column to its row.
class Adjacency {
 public:
  Adjacency() : Adjacency(0, {}) {}
  // std::invalid_argument where an edge leads to or from a node outside [0, nodes).
  Adjacency(std::int64_t nodes, std::vector<Edge> edges)
      : Adjacency(nodes, nodes, std::move(edges)) {}
  Adjacency(std::int64_t sources, std::int64_t nodes, std::vector<Edge> edges);

  // Each edge both ways.
  static Adjacency undirected(std::int64_t nodes, std::vector<Edge> edges);
  // One of such a size whose edges are not written, for a rehearsal (autograd/dry_run.hpp).
  static Adjacency unfilled(std::int64_t nodes, std::int64_t edges);
  // All graphs side by side as one, whose nodes are numbered on from graph to graph: a batch.
  static Adjacency join(const std::vector<Adjacency>& graphs);

  std::int64_t nodes() const { return nodes_; }      // that edges lead to
  std::int64_t sources() const { return sources_; }  // that they come from, the same or others
  std::int64_t edges() const { return incoming_.edges.size(); }
  std::vector<Edge> list() const;

  const SparseRows& incoming() const { return incoming_; }  // N(v): those that v gathers from
  const SparseRows& outgoing() const {
    return outgoing_;
  }  // the transpose, by which gradients go back

 private:
  std::int64_t sources_, nodes_;
  SparseRows incoming_, outgoing_;
};

// A matrix (N, F) by the entries that are not zero.
struct SparseMatrix {
  Adjacency entries;  // from column to row, numbered row by row
  Array values;       // (E, 1)
};
SparseMatrix sparse_matrix(const Array& dense);  // of (N, F), floating

}  // namespace tapestry
