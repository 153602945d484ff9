#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/csv.hpp"
#include "data/graphs/node_graph.hpp"

// A graph in two tables: nodes.csv has a row for each node, and edges.csv one for each edge.
namespace tapestry {

// Describes the files that load_node_tables reads.
inline constexpr const char* node_table_files = "a folder with nodes.csv and edges.csv";

inline constexpr const char* no_column = "none";  // a name instead of that of a column

// The format of nodes.csv and edges.csv, and the splits. Empty options are detected.
struct NodeTableOptions {
  std::string id_column{}, label_column{};
  std::string split_column{};              // or no_column
  char decimal = detected;                 // '.' or ','
  std::vector<std::string> class_names{};  // in the order of the labels
  std::vector<std::string> categorical{};  // columns whose cells are categories, not numbers
  std::vector<std::string> ignored{};      // columns that are no features
  bool directed = false;                   // an edge leads from source to target only
  // Of each class, without a split column; validation_share also if that has no validation.
  double validation_share = 0.2, test_share = 0.2;
  bool whole = false;  // all nodes with a label are the validation split
  // How nodes are divided then: 1, by validation_examples_of_classes(); 2, by divide_by_hash() of
  // their ids.
  std::int64_t rules = 2;
};

// A column of nodes.csv, and how it becomes features.
struct NodeColumn {
  std::string name{};
  // Of numbers: one feature, (x - mean) / deviation; x itself if all are 0 or 1.
  bool is_standardized = false;
  double mean = 0, deviation = 1;
  // Of categories: one feature for each, which is 1 for the nodes that have it, else 0.
  std::optional<std::vector<std::string>> categories{};
};

// A graph, and what was found in its tables.
struct NodeTables {
  NodeGraph graph{};  // nodes without a label have the label ignored_target
  std::vector<NodeColumn> columns{};
  bool has_features = true;        // false: there are no columns of features; ids are categories
  std::int64_t moved = 0;          // HeldExamples::moved
  std::int64_t missing_cells = 0;  // without a value, or with an unknown category: features are 0
  std::int64_t self_loops = 0, repeated_edges = 0;  // numbers of edges that were left out
  std::vector<std::string> unused_edge_columns{};
};

// Returns whether the path is a folder with nodes.csv, plain or gzip. Throws InputError if that
// file cannot be opened.
bool is_node_table_folder(const std::string& path);

// Returns the options, and sets the empty ones to what nodes.csv has. The id is the column id, node
// or name, else the first; the label is the column label, class or target; the split is the column
// split, else no_column; columns with a text are categorical. Throws as load_node_tables() does.
NodeTableOptions detect_node_tables(const std::string& path, const NodeTableOptions& options = {});

// Returns the columns that cannot be features: without values, or with more than 64 categories.
std::vector<std::string> unusable_columns(const std::string& path, const NodeTableOptions& options);

// Reads a graph. `trained` are the columns of a trained model; empty: all columns but the id, the
// label, the split and the ignored ones. Numbers are standardized over all nodes, except those of
// columns with only 0 and 1. Without features, each node's id is a category. The split column has
// train (training), validation (valid, val, dev), test, or nothing. Without it, or without
// validation in it, a share of each class is chosen at random. Throws
// InputError with file and line for a wrong number of cells, an id that is empty, repeated or
// unknown, a missing column of `trained`, or, without `trained`, a class that no training node has;
// InputError for no nodes, no edges, and too many values or ids; OptionError of "id_column",
// "label_column" or "split_column" for an unknown name or unusable values, of "class_names" for a
// class that is not among them, of "categorical_columns" for a cell that is not a number, of
// "ignore_columns" for an unusable column, and of "validation_fraction" for an empty split.
NodeTables load_node_tables(const std::string& path, const NodeTableOptions& options,
                            const std::vector<NodeColumn>& trained = {});

}  // namespace tapestry
