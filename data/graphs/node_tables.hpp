#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/graphs/node_graph.hpp"
#include "data/table/table.hpp"

// A graph in two tables: nodes.csv has a row for each node, and edges.csv one for each edge.
namespace tapestry {

// Describes the files that load_node_tables reads.
inline constexpr const char* node_table_files = "a folder with nodes.csv and edges.csv";

inline constexpr const char* no_column = "none";  // a name instead of that of a column

// The format of nodes.csv and edges.csv, and the splits. Empty options are detected.
struct NodeTableOptions {
  TableOptions table{};  // of nodes.csv
  std::string id_column{}, label_column{};
  // Of the split, or of the masks: "train_mask + val_mask + test_mask"; or no_column.
  std::string split_column{};
  std::vector<std::string> class_names{};   // in the order of the labels
  std::vector<std::string> columns{};       // of features; empty: all that are not used otherwise
  std::vector<std::string> categorical{};   // columns whose cells are categories, not numbers
  std::vector<std::string> ignored{};       // columns that are no features
  std::vector<std::string> edge_columns{};  // with the source and the target of each edge
  Header edge_header = Header::detected;    // that of edges.csv
  bool directed = false;                    // an edge leads from source to target only
  // Of each class, without a split column; validation_share also if that has no validation.
  double validation_share = 0.2, test_share = 0.2;
  // All nodes with a label, if there are any, are the validation split.
  bool whole = false;
  // How tables are read: 1, as before data.rules; 2, as data.rules says. How nodes are divided: 1,
  // by validation_examples_of_classes(); 2, by divide_by_hash() of their ids.
  std::int64_t rules = 2;
};

// A column of nodes.csv, and how it becomes features.
struct NodeColumn {
  std::string name{};
  // Of numbers: one feature, (x - mean) / deviation; x itself if all are 0 or 1.
  bool is_standardized = false;
  double mean = 0, deviation = 1;
  // The least and the largest number; nothing for models of earlier versions.
  std::optional<std::pair<double, double>> range{};
  // Of categories: one feature for each, which is 1 for the nodes that have it, else 0.
  std::optional<std::vector<std::string>> categories{};
};

// A number of cells or rows of one kind, and the line of the first one.
struct Found {
  std::int64_t count = 0, first_line = 0;
};

// A graph, and what was found in its tables.
struct NodeTables {
  NodeGraph graph{};  // nodes without a label have the label ignored_target
  std::vector<NodeColumn> columns{};
  bool has_features = true;  // false: there are no columns of features; ids are categories
  std::int64_t moved = 0;    // HeldExamples::moved
  Found missing_cells{};     // without a value, or with an unknown category: features are 0
  Found self_loops{}, repeated_edges{};    // edges that were left out
  Found without_split{};                   // nodes with a label that are in no split
  std::int64_t negative_labels = 0;        // cells with -1, which is no label
  std::vector<std::string> row_numbers{};  // columns of nodes.csv that are left out
  std::vector<std::string> unused_edge_columns{};
  std::vector<std::string> remarks{};  // of Table::remarks() and add_split_remark()
  bool says_directed = false;          // a column of edges.csv has Directed in each row
  // For each node, what its features have that `trained` had not: an unknown category, or a number
  // outside the range. Empty: nothing.
  std::vector<std::string> unusual{};
};

// Returns whether the path is a folder with nodes.csv, plain or gzip. Throws InputError if that
// file cannot be opened.
bool is_node_table_folder(const std::string& path);

// Returns the options, and sets the empty ones to what the tables have.
// - The id is the column of different cells that has the ends of all edges; of several the one
// named
//   id, node_id, node or name; without such a column, the one of these names, else the first.
// - The label is the column label, class, target, category or sentiment, else the only one with at
//   most 1000 values, each twice on average.
// - The split is the column split, or the masks train_mask, val_mask and test_mask; else no_column.
// - Features are all other columns but row numbers: integers that count the rows, or that strictly
//   ascend over at least 20 rows, or in a column index, "Unnamed: 0" or without a name. Columns of
//   texts are categorical.
// - The ends of an edge are a pair of columns such as source and target, else the only two that
// have
//   no row numbers.
// Throws as load_node_tables() does.
NodeTableOptions detect_node_tables(const std::string& path, const NodeTableOptions& options = {});

// Returns the columns that cannot be features: without values, or with more than 64 categories.
std::vector<std::string> unusable_columns(const std::string& path, const NodeTableOptions& options);

// Returns what the columns of nodes.csv are taken for.
std::vector<ColumnUse> node_column_uses(const std::string& path, const NodeTableOptions& options);

// Reads a graph. `trained` are the columns of a trained model; empty: those of
// detect_node_tables(). Numbers are standardized over all nodes, except those of columns with only
// 0 and 1. Without features, each node's id is a category. The split column has train (training),
// validation (valid, val, dev), test, or nothing; masks have true or 1, false or 0, or nothing.
// Without it, or without validation in it, a share of each class is chosen at random. A label is
// missing if its cell is empty, or -1 if all others are integers from 0 on. Throws as Table does,
// and InputError with file and line for an id that is empty, repeated or unknown, a missing column
// of `trained`, or, without `trained`, a class that no training node has; InputError for no edges,
// and too many values or ids; OptionError of "id_column", "label_column", "split_column", "columns"
// or "edge_columns" for an unknown name, unusable values, or several columns that may be meant, of
// "class_names" for a class that is not among them, of "categorical_columns" for a text that is not
// among numbers, of "ignore_columns" for an unusable column, and of "validation_fraction" for an
// empty split.
NodeTables load_node_tables(const std::string& path, const NodeTableOptions& options,
                            const std::vector<NodeColumn>& trained = {});

}  // namespace tapestry
