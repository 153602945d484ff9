#include "data/graphs/node_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/graphs/node_columns.hpp"
#include "data/option_error.hpp"
#include "data/table/label_column.hpp"
#include "data/text/printable.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

constexpr std::size_t most_categories = 64;
constexpr std::int64_t most_values = std::int64_t{1} << 28;  // of dense features: 1 GiB
constexpr std::int64_t most_ids = 100'000;                   // as categories, which a model stores

// Counts a row.
void add(Found& found, const Table& table, std::int64_t row) {
  if (found.count++ == 0) found.first_line = table.line(row).number;
}

// --- features ---

// The different texts of a column, at most one more than most_categories, and the row of the last.
struct Texts {
  std::set<std::string> different{};
  std::int64_t last = 0;

  Texts(const GraphTables& nodes, std::int64_t column) {
    for (std::int64_t row = 0; row < nodes.table.rows() && !are_many(); ++row)
      if (!nodes.has_no_text(row, column) && different.insert(nodes.table.text(row, column)).second)
        last = row;
  }
  bool are_many() const { return different.size() > most_categories; }
};

// Returns whether a column has a value, and texts of which some recur.
bool is_usable(const GraphTables& nodes, std::int64_t column) {
  constexpr std::int64_t least_nodes = 20;  // fewer do not show what recurs
  const std::int64_t found = nodes.table.columns()[column].found();
  if (found == 0 || !nodes.is_text(column)) return found > 0;
  const Texts texts(nodes, column);
  return !texts.are_many() && (found < least_nodes || 10 * std::ssize(texts.different) < 9 * found);
}

// Returns the mean and the deviation of a column of numbers.
NodeColumn of_numbers(const GraphTables& nodes, std::int64_t column) {
  nodes.table.expect_one_unit(column);
  double count = 0, mean = 0, squares = 0;  // squares of differences to the mean
  std::pair range{std::numeric_limits<double>::infinity(),
                  -std::numeric_limits<double>::infinity()};
  bool has_only_bits = true;
  for (std::int64_t row = 0; row < nodes.table.rows(); ++row) {
    const auto number = nodes.table.number(row, column, nodes.options.rules == 1);
    has_only_bits &= number == 0.0 || number == 1.0;
    if (!number) continue;
    range = {std::min(range.first, *number), std::max(range.second, *number)};
    const double difference = *number - mean;
    mean += difference / ++count;
    squares += difference * (*number - mean);
  }
  if (has_only_bits) return {.name = nodes.name(column), .range = std::pair(0.0, 1.0)};
  return {.name = nodes.name(column),
          .is_standardized = true,
          .mean = mean,
          .deviation = squares > 0 ? std::sqrt(squares / count) : 1,
          .range = range};
}

// Returns how the columns become features.
std::vector<NodeColumn> columns_of(const GraphTables& nodes) {
  std::vector<NodeColumn> columns;
  for (const std::int64_t j : nodes.features) {
    const std::vector<std::string>& listed = nodes.options.categorical;
    const bool is_listed = std::ranges::count(listed, nodes.name(j)) > 0;
    const NumberCounts& counts = nodes.table.columns()[j].counts;
    if (nodes.is_text(j) && !listed.empty() && !is_listed && counts.texts > 0)
      fail_cell(nodes.table,
                counts.first_text - (nodes.options.table.header == Header::present ? 1 : 0), j,
                "categorical_columns", "expected a number, found a text; enter a number");
    expect_option(nodes.table.columns()[j].found() > 0, "ignore_columns",
                  "{}: column {}: expected values, found only empty cells; enter values",
                  nodes.path(), shown(nodes.name(j)));
    if (!nodes.is_text(j) && !is_listed) {
      columns.push_back(of_numbers(nodes, j));
      continue;
    }
    const Texts texts(nodes, j);
    if (texts.are_many())
      fail_cell(
          nodes.table, texts.last, j, "ignore_columns",
          fmt::format("expected numbers or at most {} categories, found more; join some of them",
                      most_categories));
    columns.push_back({.name = nodes.name(j)});
    columns.back().categories.emplace(texts.different.begin(), texts.different.end());
  }
  if (!columns.empty()) return columns;
  expect_input(std::ssize(nodes.ids) <= most_ids,
               "{}: {} nodes have no features; expected at most {} nodes, or columns of features",
               nodes.path(), nodes.ids.size(), most_ids);
  return {{.name = nodes.options.id_column, .categories = nodes.ids}};
}

// An encoder that computes the features of rows.
class Encoder {
 public:
  Encoder(const GraphTables& nodes, const std::vector<NodeColumn>& columns) : nodes_(nodes) {
    for (const NodeColumn& column : columns) {
      const auto found = nodes.table.find(column.name);
      expect_input(found.has_value(),
                   "{}: no column is named {}, which this model was trained on; give the data of "
                   "this model",
                   nodes.path(), shown(column.name));
      Place place{.column = &column, .cell = *found, .first = width_};
      if (column.categories)
        for (const std::string& name : *column.categories)
          place.categories.emplace(name, static_cast<std::int32_t>(place.categories.size()));
      width_ += column.categories ? std::ssize(*column.categories) : 1;
      places_.push_back(std::move(place));
    }
  }

  // Sets the features of the graph: sparse if at most an eighth of them can be other than 0.
  // Returns the cells without a value, or of an unknown category.
  Found encode(NodeGraph& graph) const {
    const std::int64_t N = std::ssize(nodes_.ids);
    const bool is_sparse = width_ / 8 >= std::ssize(places_);
    expect_input(is_sparse || width_ <= most_values / N,
                 "{}: {} nodes with {} features; expected at most {} values; give fewer nodes, or "
                 "train with fewer columns",
                 nodes_.path(), N, width_, most_values);
    std::vector<Edge> entries;  // from feature to node
    std::vector<float> values;
    Array dense = is_sparse ? Array() : Array::zeros({N, width_});
    Found missing;
    for (std::int64_t row = 0; row < N; ++row)
      for (const Place& place : places_) {
        const auto [feature, value] = of_cell(place, row);
        if (feature < 0) add(missing, nodes_.table, row);
        if (feature < 0 || value == 0) continue;
        if (is_sparse) {
          entries.push_back({feature, static_cast<std::int32_t>(row)});
          values.push_back(value);
        } else {
          dense.mutable_values<float>()[row * width_ + feature] = value;
        }
      }
    graph.features = is_sparse ? Array::of(values, {std::ssize(values), 1}) : dense;
    if (is_sparse) graph.entries.emplace(width_, N, std::move(entries));
    return missing;
  }

  // Returns what a node's features have that those of the training had not: the first such column.
  std::string unusual(std::int64_t row) const {
    for (const Place& place : places_) {
      const NodeColumn& column = *place.column;
      if (column.categories) {
        const std::string text = nodes_.table.text(row, place.cell);
        if (!nodes_.has_no_text(row, place.cell) && !place.categories.contains(text))
          return fmt::format("{}: unseen category {}", column.name, shown(text));
      } else if (const auto number = nodes_.table.number(row, place.cell);
                 number && column.range &&
                 (*number < column.range->first || *number > column.range->second)) {
        return fmt::format("{}: outside {:.10g} to {:.10g}", column.name, column.range->first,
                           column.range->second);
      }
    }
    return "";
  }

 private:
  struct Place {
    const NodeColumn* column;
    std::int64_t cell;   // number of the column in the table
    std::int64_t first;  // its first feature
    std::unordered_map<std::string, std::int32_t> categories{};
  };
  struct Feature {
    std::int32_t feature;  // -1: the cell has none
    float value;
  };

  Feature of_cell(const Place& place, std::int64_t row) const {
    const auto first = static_cast<std::int32_t>(place.first);
    if (place.column->categories) {
      const auto found = place.categories.find(nodes_.table.text(row, place.cell));
      return found == place.categories.end() ? Feature{-1, 0} : Feature{first + found->second, 1};
    }
    const auto number = nodes_.table.number(row, place.cell, nodes_.options.rules == 1);
    if (!number) return {-1, 0};
    return {first, static_cast<float>((*number - place.column->mean) / place.column->deviation)};
  }

  const GraphTables& nodes_;
  std::int64_t width_ = 0;
  std::vector<Place> places_{};
};

// --- edges and splits ---

// Returns whether a column has Directed in each row, as Gephi writes it.
bool says_directed(const Table& table, const TableColumns& ends) {
  const auto is_directed = [&](std::int64_t row, std::int64_t column) {
    return lower_ascii(table.raw(row, column)) == "directed";
  };
  for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j) {
    std::int64_t row = 0;
    while (!has_column(ends, j) && row < table.rows() && is_directed(row, j)) ++row;
    if (row == table.rows()) return true;
  }
  return false;
}

void read_edges(NodeTables& read, const GraphTables& nodes) {
  const Table& table = *nodes.edges;
  for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j)
    if (std::ranges::count(nodes.ends, j) == 0)
      read.unused_edge_columns.push_back(table.columns()[j].name);
  std::vector<Edge> edges;
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  const bool directed = nodes.options.directed;
  read.says_directed = says_directed(table, nodes.ends);
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const auto node_in = [&](std::int64_t column) {
      const std::string id = table.text(row, column);
      const auto found = nodes.numbers.find(id);
      if (found == nodes.numbers.end())
        table.line(row).fail(
            fmt::format("node \"{}\" is not among the {} of {}, column {}; remove the edge, or add "
                        "the node",
                        shown(id), counted(std::ssize(nodes.ids), "node"), nodes.path(),
                        shown(nodes.options.id_column)));
      return found->second;
    };
    const Edge edge{node_in(nodes.ends[0]), node_in(nodes.ends[1])};
    if (edge.from == edge.to) {
      add(read.self_loops, table, row);
      continue;
    }
    if (!seen.insert(directed
                         ? std::pair(edge.from, edge.to)
                         : std::pair(std::min(edge.from, edge.to), std::max(edge.from, edge.to)))
             .second)
      add(read.repeated_edges, table, row);
    edges.push_back(edge);
  }
  expect_input(!edges.empty(),
               "{}: no row joins two different nodes; expected the ids of two nodes in each row",
               table.path());
  const std::int64_t N = std::ssize(nodes.ids);
  read.graph.graph =
      directed ? Adjacency(N, std::move(edges)) : Adjacency::undirected(N, std::move(edges));
}

// Moves a share of the nodes of each class into another split, by rules 1.
void move_share(std::vector<std::int64_t>& from, std::vector<std::int64_t>& to, double share,
                const std::vector<std::int32_t>& labels) {
  if (share <= 0) return;
  std::vector<std::int32_t> of_nodes;
  for (const std::int64_t node : from) of_nodes.push_back(labels[node]);
  const std::vector<std::int64_t> chosen = validation_examples_of_classes(of_nodes, share);
  std::vector<std::int64_t> rest;
  for (std::int64_t i = 0; i < std::ssize(from); ++i)
    (std::ranges::binary_search(chosen, i) ? to : rest).push_back(from[i]);
  from = std::move(rest);
}

// Moves shares of the training nodes of each class into the other splits, by rules 2. Returns
// HeldExamples::moved.
std::int64_t move_shares(NodeGraph& graph, const GraphTables& nodes, const SplitShares& shares) {
  std::vector<std::uint64_t> hashes;
  std::vector<std::int32_t> labels;
  for (const std::int64_t node : graph.training) {
    hashes.push_back(text_hash(nodes.ids[node]));
    labels.push_back(nodes.labels[node]);
  }
  const HeldExamples held = divide_by_hash(hashes, labels, shares);
  const std::vector<std::int64_t> all = std::exchange(graph.training, {});
  for (std::int64_t i = 0; i < std::ssize(all); ++i)
    (std::ranges::binary_search(held.validation, i) ? graph.validation
     : std::ranges::binary_search(held.test, i)     ? graph.test
                                                    : graph.training)
        .push_back(all[i]);
  return held.moved;
}

// Divides the nodes with labels into splits. Returns HeldExamples::moved. Throws OptionError of
// "split_column" or "validation_fraction" if no node is for training, or none for validation.
std::int64_t divide(NodeTables& read, const GraphTables& nodes) {
  NodeGraph& graph = read.graph;
  const NodeTableOptions& options = nodes.options;
  for (std::int64_t node = 0; node < std::ssize(nodes.ids); ++node) {
    if (nodes.labels[node] == ignored_target) continue;
    const std::optional<int> split = options.whole ? 1 : nodes.split_of(node);
    if (split)
      std::array{&graph.training, &graph.validation, &graph.test}[*split]->push_back(node);
    else
      add(read.without_split, nodes.table, node);
  }
  if (options.whole) return 0;
  std::int64_t moved = 0;
  const bool is_given = !nodes.split.empty();
  const double test_share = is_given ? 0 : options.test_share;
  if (options.rules == 1) {
    if (graph.validation.empty())
      move_share(graph.training, graph.validation, options.validation_share, nodes.labels);
    move_share(graph.training, graph.test, test_share / (1 - options.validation_share),
               nodes.labels);
  } else if (graph.validation.empty()) {
    moved = move_shares(graph, nodes, {.validation = options.validation_share, .test = test_share});
  }
  expect_option(!is_given || !graph.training.empty(), "split_column",
                "{}: column {}: no node with a label is for training; enter train for some nodes",
                nodes.path(), shown(options.split_column));
  const std::size_t labels = graph.training.size() + graph.validation.size() + graph.test.size();
  expect_option(!graph.training.empty() && !graph.validation.empty(), "validation_fraction",
                "{}: {} with labels of {}, but {} for training and {} for validation; expected at "
                "least one each; label more nodes",
                nodes.path(), counted(static_cast<std::int64_t>(labels), "node"),
                counted(std::ssize(options.class_names), "class", "classes"), graph.training.size(),
                graph.validation.size());
  return moved;
}

// Throws InputError for a class without training nodes.
void check_classes(const NodeGraph& graph, const GraphTables& nodes) {
  std::set<std::int32_t> trained;
  for (const std::int64_t node : graph.training) trained.insert(graph.labels[node]);
  for (const auto* split : {&graph.validation, &graph.test})
    for (const std::int64_t node : *split)
      if (!trained.contains(graph.labels[node]))
        nodes.table.line(node).fail(
            fmt::format("no node of the training split has class {}; move one to that split",
                        shown(graph.classes[graph.labels[node]])));
}

}  // namespace

bool is_node_table_folder(const std::string& path) {
  return is_folder(path) && find_table(path, "nodes.csv").has_value();
}

NodeTableOptions detect_node_tables(const std::string& path, const NodeTableOptions& given) {
  const GraphTables nodes(path, given);
  NodeTableOptions options = nodes.options;
  for (const std::int64_t j : nodes.features)
    if (given.categorical.empty() && nodes.is_text(j) && nodes.table.columns()[j].found() > 0)
      options.categorical.push_back(nodes.name(j));
  for (const std::int64_t j : nodes.row_numbers)
    if (given.ignored.empty() && given.rules > 1) options.ignored.push_back(nodes.name(j));
  return options;
}

std::vector<std::string> unusable_columns(const std::string& path,
                                          const NodeTableOptions& options) {
  const GraphTables nodes(path, options);
  std::vector<std::string> names;
  for (const std::int64_t j : nodes.features)
    if (!is_usable(nodes, j)) names.push_back(nodes.name(j));
  return names;
}

std::vector<ColumnUse> node_column_uses(const std::string& path, const NodeTableOptions& options) {
  const GraphTables nodes(path, options);
  std::vector<ColumnUse> all;
  for (std::int64_t j = 0; j < nodes.columns(); ++j) {
    const char* use = j == nodes.id                      ? "id"
                      : j == nodes.label                 ? "label"
                      : has_column(nodes.split, j)       ? "split"
                      : has_column(nodes.row_numbers, j) ? "row numbers, left out"
                      : !has_column(nodes.features, j)   ? "left out"
                      : nodes.is_text(j)                 ? "categories"
                      : may_be_ids(nodes.table, j)       ? "feature, all different: an id?"
                                                         : "feature";
    all.push_back({nodes.name(j), fmt::format("{}: {}", use, nodes.table.summary(j))});
  }
  return all;
}

NodeTables load_node_tables(const std::string& path, const NodeTableOptions& given,
                            const std::vector<NodeColumn>& trained) {
  const GraphTables nodes(path, given);
  NodeTables read{.columns = trained.empty() ? columns_of(nodes) : trained,
                  .negative_labels = nodes.negative_labels,
                  .remarks = nodes.table.remarks()};
  read.has_features = read.columns.front().name != nodes.options.id_column;
  if (!nodes.label_remark.empty()) read.remarks.push_back(nodes.label_remark);
  if (nodes.split.empty()) add_split_remark(read.remarks, nodes.table, {nodes.label});
  for (const std::int64_t j : nodes.row_numbers) read.row_numbers.push_back(nodes.name(j));
  read.graph = {.labels = nodes.labels, .names = nodes.ids, .classes = nodes.options.class_names};
  read_edges(read, nodes);
  read.moved = divide(read, nodes);
  if (trained.empty()) check_classes(read.graph, nodes);
  const Encoder encoder(nodes, read.columns);
  read.missing_cells = encoder.encode(read.graph);
  if (!trained.empty())
    for (std::int64_t row = 0; row < std::ssize(nodes.ids); ++row)
      read.unusual.push_back(encoder.unusual(row));
  return read;
}

}  // namespace tapestry
