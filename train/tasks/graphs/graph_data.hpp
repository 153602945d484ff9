#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/graphs/node_graph.hpp"
#include "data/graphs/node_tables.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "train/config/settings.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"

namespace tapestry {

enum class GraphKind { drawn, karate, citations, csv };

// The graphs of a config.
struct GraphSettings : NodeTableOptions, TableOptions {
  GraphKind kind = GraphKind::drawn;
  std::string path{}, source{};
  SyntheticGraphOptions drawn{};
  std::int64_t held_back = 1000;  // validation graphs
  std::vector<std::int64_t> labeled{1, 34};
  NodeSplit citations{};

  // Returns and sets the options of both bases.
  NodeTableOptions tables() const {
    NodeTableOptions all = *this;
    all.table = *this;
    return all;
  }
  void set_tables(const NodeTableOptions& all) {
    static_cast<NodeTableOptions&>(*this) = all;
    static_cast<TableOptions&>(*this) = all.table;
  }
};

extern const SettingsOf<GraphSettings> graph_settings;

// The data of the task: the nodes of one graph, or graphs, to classify.
struct GraphData {
  std::int64_t inputs = 0;
  std::vector<std::string> classes{};
  std::unique_ptr<Dataset> training{}, validation{}, test{};  // null for a split without nodes
  std::shared_ptr<const NodeGraph> whole{};  // the graph whose nodes are classified, or null
  const SyntheticGraphs* drawn = nullptr;  // the validation split if graphs are classified, or null
  std::string remark{};                    // what was found in tables, on one line
  std::map<std::string, std::string> metadata{};  // how the columns of tables become features
  std::optional<PredictorInput> table{};          // how nodes.csv is read; nothing: there is none
  std::vector<std::string> unusual{};             // NodeTables::unusual
};

// Returns the data of a setup. Throws InputError that names file and line, or the key.
GraphData load_graphs(const TaskSetup& setup);

// Detects how nodes.csv and edges.csv are written, and their columns, as TaskSpec::detect does.
// Throws InputError if the tables cannot be read.
void detect_graphs(Config& config);

// Returns what is found at a path, as TaskSpec::recognize does. Throws InputError if the folder has
// a nodes.csv, but its tables cannot be read.
std::vector<Recognized> recognize_graphs(const UserData& data);

}  // namespace tapestry
