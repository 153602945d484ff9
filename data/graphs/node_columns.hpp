#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/graphs/node_tables.hpp"

// The columns of nodes.csv and edges.csv by their use, for node_tables.cpp.
namespace tapestry {

using TableColumns = std::vector<std::int64_t>;  // indices

// The tables, with all but the features.
struct GraphTables {
  NodeTableOptions options;
  Table table;
  std::optional<Table> edges{};
  TableColumns ends{}, split{}, features{}, row_numbers{};
  std::int64_t id = 0, label = 0;  // label: -1 for nodes that are predicted, without a column of it
  std::vector<std::string> ids{};
  std::unordered_map<std::string, std::int32_t> numbers{};  // of the nodes, by their ids
  std::vector<std::int32_t> labels{};                       // indices of classes
  std::int64_t negative_labels = 0;                         // cells with -1 that are no label
  std::string label_remark{};                               // NumberNames::remark

  GraphTables(const std::string& folder, const NodeTableOptions& given);

  const std::string& path() const { return table.path(); }
  std::int64_t columns() const { return std::ssize(table.columns()); }
  const std::string& name(std::int64_t column) const { return table.columns()[column].name; }
  bool is_text(std::int64_t column) const {
    const TableColumn& one = table.columns()[column];
    return options.rules == 1 ? one.counts.texts > 0 : one.kind != ColumnKind::numbers;
  }
  // Returns whether a cell of texts has no value: "none" is a text.
  bool has_no_text(std::int64_t row, std::int64_t column) const;
  // Returns the split of a node, by the column of the splits or the masks; 0 without them.
  std::optional<int> split_of(std::int64_t row) const;

 private:
  void open_edges(const std::string& folder);
  bool may_be_id(std::int64_t column) const;
  std::int64_t find_id() const;
  std::int64_t find_label() const;
  void find_split();
  TableColumns find_bare_masks() const;
  std::optional<int> mask_of(std::int64_t column) const;
  std::optional<bool> flag_in(std::int64_t row, std::int64_t column) const;
  void find_features();
  void read_ids();
  void read_labels();
  bool has_negative_labels() const;
};

// Returns the path of a table in the folder, or of its gzip; nothing if neither exists.
std::optional<std::string> find_table(const std::string& folder, const std::string& name);

// Returns whether a .csv or .tsv has edges: two columns are named as their ends and share ten or
// more ids, at least a quarter of the targets, and no other column has labels.
bool is_edge_table(const std::string& path);

// Throws OptionError of `option`, or InputError if it is null, for a cell.
[[noreturn]] void fail_cell(const Table& table, std::int64_t row, std::int64_t column,
                            const char* option, const std::string& problem);

bool has_column(const TableColumns& columns, std::int64_t column);

}  // namespace tapestry
