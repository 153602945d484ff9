#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"

namespace tapestry {

namespace key {

enum class GraphKind { drawn, karate, citations, csv };
inline const Choice<GraphKind> graph_kind{
    "data.kind",
    GraphKind::drawn,
    "synthetic graphs to classify, or a graph with nodes to classify: the karate-club graph, a "
    "citation data set, or tables (nodes.csv, edges.csv)",
    {{"drawn", GraphKind::drawn},
     {"karate", GraphKind::karate},
     {"citations", GraphKind::citations},
     {"csv", GraphKind::csv}}};
inline const Condition of_drawn_graphs = graph_kind.is(GraphKind::drawn);

}  // namespace key

// The data of the task: the nodes of one graph, or graphs, to classify.
struct GraphData {
  std::int64_t inputs = 0;
  std::vector<std::string> classes{};
  std::unique_ptr<Dataset> training{}, validation{}, test{};  // null for a split without nodes
  std::shared_ptr<const NodeGraph> whole{};  // the graph whose nodes are classified, or null
  const SyntheticGraphs* drawn = nullptr;  // the validation split if graphs are classified, or null
  std::string remark{};                    // what was found in tables, on one line
  std::map<std::string, std::string> metadata{};  // how the columns of tables become features
};

std::vector<KeyInfo> graph_data_keys();

// Returns the data of a setup. Throws InputError that names file and line, or the key.
GraphData load_graphs(const TaskSetup& setup);

// Detects the columns of nodes.csv, as TaskSpec::detect does. Throws InputError if the table cannot
// be read.
void detect_graphs(Config& config);

// Returns what is found at a path, as TaskSpec::recognize does. Throws InputError if the folder has
// a nodes.csv, but its tables cannot be read.
std::vector<Recognized> recognize_graphs(const std::string& path);

}  // namespace tapestry
