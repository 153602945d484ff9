#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autograd/adjacency.hpp"
#include "autograd/random.hpp"
#include "data/dataset.hpp"

namespace tapestry {

struct SyntheticGraphOptions {
  std::int64_t least_nodes = 12, most_nodes = 24;  // 12 <= least_nodes <= most_nodes <= 1000
  std::int64_t examples = 100'000;
  std::uint64_t seed = 0;
  Split split = Split::train;
};

// Undirected graphs to be classified by their structure: a ring, a star, a tree whose nodes have at
// most four neighbors, a grid of two or three rows, or two cliques joined by an edge. Except in
// trees, up to a quarter of the nodes, and those that do not fit the grid, are whiskers: leaves
// attached to other nodes. The nodes are in random order, and have one feature each, a 1. A batch:
// inputs (N, 1), the graphs, targets (G) int32 and count G. Example i depends only on i and the
// options; no graph of one split is isomorphic to one of the other, whatever their seeds.
class SyntheticGraphs final : public Dataset {
 public:
  // Throws std::invalid_argument for numbers of nodes out of range, and without examples.
  explicit SyntheticGraphs(const SyntheticGraphOptions& options);

  std::int64_t size() const override { return options_.examples; }
  Batch batch(std::span<const std::int64_t> examples) const override;

  static const std::vector<std::string>& classes();  // returns ring, star, tree, grid, cliques

  struct Drawn {
    Adjacency graph;
    std::int32_t label;
  };
  Drawn draw(std::int64_t example) const;

 private:
  Batch shapes_of_batch(std::span<const std::int64_t> examples) const;

  SyntheticGraphOptions options_;
};

// Returns the edges of an undirected graph as in "0-1 1-2 0-2".
std::string edges_text(const Adjacency& graph);
// Returns the undirected graph of such a text, up to 100,000 nodes. Throws InputError with the word
// that is not an edge, and for a text without edges.
Adjacency parse_edges(std::string_view text);

}  // namespace tapestry
