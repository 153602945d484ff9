#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/adjacency.hpp"
#include "data/dataset.hpp"

namespace tapestry {

// A graph whose nodes have features and a class each, and which of these are known.
struct NodeGraph {
  Adjacency graph{};
  Array features{};                    // (N, F) float32
  std::vector<std::int32_t> labels{};  // N of them, indices of classes
  std::vector<std::string> names{};    // of the nodes
  std::vector<std::string> classes{};
  std::vector<std::int64_t> training{};    // the nodes to learn from,
  std::vector<std::int64_t> validation{};  // to validate on,
  std::vector<std::int64_t> test{};        // and, where there are more, to test on
};

// Semi-supervised classification of nodes: an example is a node whose class is asked for, though
// the model sees the whole graph at once. A batch: inputs (N, F), or sparse where at most an eighth
// is not zero; its graph; and targets (N) int32, ignored_target but for the batch's nodes; count:
// these.
class NodeDataset final : public Dataset {
 public:
  NodeDataset(std::shared_ptr<const NodeGraph> whole, std::vector<std::int64_t> nodes);

  std::int64_t size() const override { return std::ssize(nodes_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;

  std::int64_t node(std::int64_t example) const;

 private:
  std::shared_ptr<const NodeGraph> whole_;
  std::vector<std::int64_t> nodes_;
  std::optional<SparseMatrix> sparse_{};  // the features
};

// Zachary's karate club: who met whom outside it, and which of the two clubs each of its 34 members
// joined when it split, "Mr. Hi" or "Officer" (Zachary 1977, "An information flow model for
// conflict and fission in small groups"). Members are named 1 to 34, and told
// apart by a feature each. `labelled`: those whose side is known; the others are to be found.
// OptionError of "labelled": a member that there is not, or one side alone.
NodeGraph karate_club(const std::vector<std::int64_t>& labelled);

// How many nodes, in the order of the file, are of each split: the first ones train, the next ones
// validate, and the last ones test.
struct NodeSplit {
  std::int64_t training = 140, validation = 500, test = 1000;  // those of Planetoid's Cora
};

// Says what load_node_graph reads.
inline constexpr const char* node_graph_files = "a folder with a *.content and a *.cites file";

// Reads a graph in the format of its path (see citations.cpp). InputError names file, line and
// reason: a node given twice, or with more or fewer features than the first, a line without a
// class, a feature that is not a number, a class that no training node has, an edge to a node that
// is not there. OptionError of "training": fewer nodes than the splits have together.
NodeGraph load_node_graph(const std::string& path, const NodeSplit& split);

}  // namespace tapestry
