#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

struct Edge {
  std::int32_t from, to;
  auto operator<=>(const Edge&) const = default;
};

// The edges of a graph as compressed sparse rows: those that end at node v, or start from it, have
// the indices [offsets[v], offsets[v + 1]). All arrays are int32.
struct SparseRows {
  Array offsets;    // (N + 1)
  Array neighbors;  // (E): the node at the other end, ascending within each row
  Array edges;      // (E): the number of the edge
};

// A directed graph of N nodes; an undirected graph has each edge in both directions. Edges are
// numbered by their target node, then by their source node, and duplicates are removed. A graph
// is immutable: copies share memory. Sources may be another set of nodes than targets, as in a
// sparse matrix, where each entry is an edge from its column to its row.
class Adjacency {
 public:
  Adjacency() : Adjacency(0, {}) {}
  // Throws std::invalid_argument if an edge has a node outside [0, sources) or [0, nodes), and for
  // 2^31 - 1 or more nodes, sources or edges.
  Adjacency(std::int64_t nodes, std::vector<Edge> edges)
      : Adjacency(nodes, nodes, std::move(edges)) {}
  Adjacency(std::int64_t sources, std::int64_t nodes, std::vector<Edge> edges);

  // Returns the graph with each edge in both directions. Throws std::invalid_argument for a node
  // outside [0, nodes).
  static Adjacency undirected(std::int64_t nodes, std::vector<Edge> edges);
  // Returns a graph of this size whose edges are undefined, for a DryRun.
  static Adjacency unfilled(std::int64_t nodes, std::int64_t edges);
  // Returns the disjoint union: the nodes of each graph are numbered after those of the ones
  // before.
  static Adjacency join(const std::vector<Adjacency>& graphs);
  // Returns the graph in which each node is also its own neighbor. The first call computes it for
  // all copies. Throws std::invalid_argument if the sources are other nodes than the targets.
  Adjacency with_loops() const;

  std::int64_t nodes() const { return nodes_; }      // number of target nodes
  std::int64_t sources() const { return sources_; }  // number of source nodes
  std::int64_t edges() const { return incoming_.edges.size(); }
  std::vector<Edge> list() const;
  // Return the source and the target node of each edge by its number, (E) int32 in ascending order
  // of targets. gather(x, 0, edge_sources()) gives the features (E, F) of the sources, and
  // segment_sum(y (E, F), incoming().offsets) the sums (N, F) at the targets.
  const Array& edge_sources() const { return incoming_.neighbors; }
  Array edge_targets() const;

  const SparseRows& incoming() const { return incoming_; }  // rows by target node; sources are N(v)
  // Returns the rows by source node, which gradients use.
  const SparseRows& outgoing() const { return outgoing_; }

 private:
  std::int64_t sources_, nodes_;
  SparseRows incoming_, outgoing_;
  struct Looped;
  std::shared_ptr<Looped> looped_;  // what with_loops() returns
};

// A matrix (N, F) of which only the entries other than zero are stored.
struct SparseMatrix {
  Adjacency entries;  // edges from column to row, numbered row by row
  Array values;       // (E, 1)
};

// Returns the entries of a floating matrix (N, F). Throws std::invalid_argument for another rank or
// int32.
SparseMatrix sparse_matrix(const Array& dense);

}  // namespace tapestry
