#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/adjacency.hpp"
#include "data/dataset.hpp"

namespace tapestry {

// A graph whose nodes have features, and some or all of them a class, and its splits.
struct NodeGraph {
  Adjacency graph{};
  Array features{};                    // (N, F) float32, or the values (E, 1) of `entries`
  std::optional<Adjacency> entries{};  // of (N, F), if most features are 0
  std::vector<std::int32_t> labels{};  // N indices of classes; ignored_target: unknown
  std::vector<std::string> names{};    // names of the nodes
  std::vector<std::string> classes{};
  std::vector<std::int64_t> training{};    // indices of nodes
  std::vector<std::int64_t> validation{};  // indices of nodes
  std::vector<std::int64_t> test{};        // indices of nodes; may be empty
  std::string remark{};                    // what of the files is not used, or ""

  std::int64_t inputs() const { return entries ? entries->sources() : features.dim(1); }  // F
};

// A data set for semi-supervised classification of nodes: an example is a node whose class is
// predicted, while the model reads the whole graph. A batch: inputs (N, F), sparse if at most an
// eighth of them is not zero; the graph; targets (N) int32, ignored_target except for the nodes of
// the batch; count: the number of these.
class NodeDataset final : public Dataset {
 public:
  // Throws std::invalid_argument if there are no nodes, or one is not in the graph.
  NodeDataset(std::shared_ptr<const NodeGraph> whole, std::vector<std::int64_t> nodes);

  std::int64_t size() const override { return std::ssize(nodes_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool add_examples_to(Checksum& sum) const override;

  std::int64_t node(std::int64_t example) const;  // returns the index of the example's node

 private:
  void add_inputs_to(Checksum& sum) const;

  std::shared_ptr<const NodeGraph> whole_;
  std::vector<std::int64_t> nodes_;
  std::optional<SparseMatrix> sparse_{};  // the features
};

// Returns Zachary's karate club: its edges join members who met outside the club, and its classes
// are the clubs, "Mr. Hi" and "Officer", that the 34 members joined when it split (Zachary 1977,
// "An information flow model for conflict and fission in small groups"). Members are named 1 to 34,
// and their features are one-hot. `labeled` are the members of the training split, the others are
// the validation split. Throws OptionError of "labeled" for an unknown member, if only one club or
// none is labeled, and if all members are.
NodeGraph karate_club(const std::vector<std::int64_t>& labeled);

// The number of nodes of each split: the first nodes of the file are for training, the next ones
// for validation, and the last ones for the test.
struct NodeSplit {
  std::int64_t training = 140, validation = 500, test = 1000;  // Planetoid's split of Cora
  // Classes of a trained model; if there are any, all nodes are the validation split.
  std::vector<std::string> whole_of{};
};

// Describes the files that load_node_graph reads.
inline constexpr const char* node_graph_files = "a folder with a *.content and a *.cites file";

// Reads a graph from such a folder (see citations.cpp). Throws InputError with file and line for a
// repeated node, a node with more or fewer features than the first, a line without a class, a
// feature that is not a number, a class that no training node has, or if half of the edges name an
// unknown node (fewer are left out: Citeseer's have 17 of 4,732); InputError also for missing files
// and for no edges; OptionError of "training_nodes" if there are
// fewer nodes than the splits have together.
NodeGraph load_node_graph(const std::string& path, const NodeSplit& split);

}  // namespace tapestry
