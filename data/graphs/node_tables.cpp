#include "data/graphs/node_tables.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_categories = 64, most_classes = 1000;
constexpr std::int64_t most_values = std::int64_t{1} << 28;  // of dense features: 1 GiB
constexpr std::int64_t most_ids = 100'000;                   // as categories, which a model stores

// Returns the path of a table in the folder, or of its gzip; nothing if neither exists.
std::optional<std::string> find_table(const std::string& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"})
    if (std::string path = (fs::path(folder) / (name + ending)).string(); has_file(path))
      return path;
  return std::nullopt;
}

std::string table_path(const std::string& folder, const std::string& name) {
  const std::optional<std::string> path = find_table(folder, name);
  expect_input(path.has_value(), "{}: expected a file {}, found {}; give {}", folder, name,
               path ? "" : list_briefly(file_names(folder)), node_table_files);
  return *path;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Returns whether a cell of texts has no value: "none" is a text.
bool has_no_text(std::string_view cell) {
  return is_missing(cell) && cell != "none" && cell != "None";
}

struct Table {
  CsvFile file;
  char delimiter;
  std::vector<std::string> names;  // names of the columns

  explicit Table(const std::string& path)
      : file(path),
        delimiter(csv_delimiter(file.header())),
        names(csv_names(file.header(), delimiter)) {}

  // Calls take(line, cells) for each row.
  void for_each_row(const auto& take) const {
    file.for_each_row(
        [&](const FileLine& line) { take(line, csv_row(line, delimiter, names.size())); });
  }
  // Returns the first column with one of these names, in any case, in the order of the names.
  std::optional<std::size_t> column_of(std::initializer_list<const char*> wanted) const {
    for (const char* name : wanted)
      for (std::size_t j = 0; j < names.size(); ++j)
        if (lower(names[j]) == name) return j;
    return std::nullopt;
  }
  std::size_t column_named(const std::string& name, const char* option) const {
    const auto found = std::ranges::find(names, name);
    expect_option(found != names.end(), option,
                  "{}: line 1: no column is named {}; expected one of {}", file.header().path,
                  shown(name), list_briefly(names));
    return found - names.begin();
  }
};

constexpr const char* split_names = "train, validation, test or nothing";
enum class NodeUse { none, training, validation, test };

std::optional<NodeUse> use_named(const std::string& name) {
  if (has_no_text(name)) return NodeUse::none;
  if (name == "train" || name == "training") return NodeUse::training;
  if (name == "validation" || name == "valid" || name == "val" || name == "dev")
    return NodeUse::validation;
  if (name == "test") return NodeUse::test;
  return std::nullopt;
}

// The statistics of the cells of a column of features.
struct Values {
  double count = 0, mean = 0, squares = 0;    // of the numbers; squares of differences to the mean
  bool has_only_bits = true;                  // no cell is another than 0 or 1
  std::int64_t text_line = 0, last_line = 0;  // first line with a text; line of the last category
  std::set<std::string> texts{};              // at most most_categories + 1

  void add(std::string_view cell, char decimal, std::int64_t line) {
    const std::optional<float> number = csv_number(cell, decimal);
    has_only_bits &= number == 0.0F || number == 1.0F;
    if (number) {
      const double difference = *number - mean;
      mean += difference / ++count;
      squares += difference * (*number - mean);
    } else if (text_line == 0 && !is_missing(cell)) {
      text_line = line;
    }
    if (texts.size() > most_categories || has_no_text(cell)) return;
    if (texts.insert(csv_text(cell)).second) last_line = line;
  }
};

// nodes.csv, with all but its features.
struct Nodes {
  Table table;
  NodeTableOptions options;
  std::size_t id = 0, label = 0;
  std::optional<std::size_t> split{};
  std::vector<std::size_t> features{};  // columns
  std::vector<Values> values{};         // of the features
  std::vector<std::string> ids{};
  std::unordered_map<std::string, std::int32_t> numbers{};  // of the nodes, by their ids
  std::vector<std::int32_t> labels{};                       // indices of classes
  std::vector<NodeUse> uses{};

  Nodes(const std::string& folder, const NodeTableOptions& given)
      : table(table_path(folder, "nodes.csv")), options(given) {
    find_columns();
    find_decimal();
    read();
    if (given.class_names.empty()) sort_classes();
  }

  const std::string& path() const { return table.file.header().path; }
  static std::int64_t line_of(std::size_t node) { return static_cast<std::int64_t>(node) + 2; }

 private:
  void find_columns();
  void find_decimal();
  void read();
  std::int32_t class_of(const FileLine& line, std::string_view cell,
                        std::unordered_map<std::string, std::int32_t>& classes) const;
  void sort_classes();
};

void Nodes::find_columns() {
  const std::vector<std::string>& names = table.names;
  const FileLine header = table.file.header();
  header.expect(!std::ranges::all_of(
                    names, [](const std::string& name) { return parse_float(name).has_value(); }),
                "expected the names of the columns, found numbers; add a header line");
  std::unordered_set<std::string_view> seen;
  for (std::size_t j = 0; j < names.size(); ++j) {
    header.expect(!names[j].empty(), "column {} has no name; give it one", j + 1);
    header.expect(seen.insert(names[j]).second, "two columns are named {}; rename one of them",
                  shown(names[j]));
  }
  const auto chosen = [&](std::string& name, std::optional<std::size_t> column) {
    if (name.empty() && column) name = names[*column];
    return name.empty();
  };
  chosen(options.id_column, table.column_of({"id", "node", "name"}).value_or(0));
  id = table.column_named(options.id_column, "id_column");
  expect_option(!chosen(options.label_column, table.column_of({"label", "class", "target"})),
                "label_column",
                "{}: line 1: no column is named label, class or target, found {}; rename the "
                "column of the classes to label",
                path(), list_briefly(names));
  label = table.column_named(options.label_column, "label_column");
  if (chosen(options.split_column, table.column_of({"split"}))) options.split_column = no_column;
  if (options.split_column != no_column)
    split = table.column_named(options.split_column, "split_column");
  for (const std::string& name : options.categorical)
    table.column_named(name, "categorical_columns");
  for (const std::string& name : options.ignored) table.column_named(name, "ignore_columns");
  for (std::size_t j = 0; j < names.size(); ++j)
    if (j != id && j != label && j != split && names[j] != index_column &&
        std::ranges::count(options.ignored, names[j]) == 0)
      features.push_back(j);
}

void Nodes::find_decimal() {
  constexpr std::size_t looked_at = 1000;
  std::vector<std::vector<std::string_view>> rows;
  if (options.decimal == detected)
    table.file.for_each_row(looked_at, [&](const FileLine& line) {
      rows.push_back(csv_row(line, table.delimiter, table.names.size()));
    });
  if (options.decimal == detected) options.decimal = csv_decimal(rows);
}

// Returns the index of a label's class, which is added to `classes` if these are not given.
std::int32_t Nodes::class_of(const FileLine& line, std::string_view cell,
                             std::unordered_map<std::string, std::int32_t>& classes) const {
  if (has_no_text(cell)) return ignored_target;
  const auto next = static_cast<std::int32_t>(classes.size());
  std::string name = csv_text(cell);
  if (options.class_names.empty()) {
    const std::int32_t index = classes.emplace(std::move(name), next).first->second;
    expect_option(classes.size() <= most_classes, "label_column",
                  "{}: line {}: column {}: expected at most {} classes, found more", path(),
                  line.number, shown(options.label_column), most_classes);
    return index;
  }
  const auto found = classes.find(name);
  expect_option(found != classes.end(), "class_names", "{}: line {}: class {} is not one of {}",
                path(), line.number, shown(name), list_briefly(options.class_names));
  return found->second;
}

void Nodes::read() {
  values.resize(features.size());
  std::unordered_map<std::string, std::int32_t> classes;
  for (const std::string& name : options.class_names)
    classes.emplace(name, static_cast<std::int32_t>(classes.size()));
  table.for_each_row([&](const FileLine& line, const std::vector<std::string_view>& cells) {
    const std::string name = csv_text(cells[id]);
    line.expect(!name.empty(), "column {}: the cell is empty; give each node an id",
                shown(options.id_column));
    const auto [place, is_new] = numbers.emplace(name, static_cast<std::int32_t>(ids.size()));
    line.expect(is_new, "column {}: node {} is also in line {}; remove one of these lines",
                shown(options.id_column), shown(name), is_new ? 0 : line_of(place->second));
    ids.push_back(name);
    labels.push_back(class_of(line, cells[label], classes));
    const auto use = split ? use_named(lower(csv_text(cells[*split]))) : NodeUse::none;
    expect_option(use.has_value(), "split_column", "{}: line {}: column {}: expected {}, found {}",
                  path(), line.number, shown(options.split_column), split_names,
                  split ? shown(cells[*split]) : "");
    uses.push_back(*use);
    for (std::size_t i = 0; i < features.size(); ++i)
      values[i].add(cells[features[i]], options.decimal, line.number);
  });
  expect_input(!ids.empty(), "{}: the table has no rows; expected one for each node", path());
  expect_option(std::ranges::any_of(labels, [](auto one) { return one != ignored_target; }),
                "label_column", "{}: column {}: no node has a label; label some nodes", path(),
                shown(options.label_column));
  if (!options.class_names.empty()) return;
  options.class_names.resize(classes.size());
  for (const auto& [name, index] : classes) options.class_names[index] = name;
}

// Sorts the classes by name, or by value if all are numbers, and numbers the labels accordingly.
void Nodes::sort_classes() {
  const std::vector<std::string> found = options.class_names;
  const bool are_numbers = std::ranges::all_of(
      found, [](const std::string& name) { return parse_float(name).has_value(); });
  std::ranges::sort(options.class_names, [&](const std::string& a, const std::string& b) {
    const float x = are_numbers ? *parse_float(a) : 0, y = are_numbers ? *parse_float(b) : 0;
    return std::pair(x, a) < std::pair(y, b);
  });
  std::vector<std::int32_t> places;
  for (const std::string& name : found)
    places.push_back(static_cast<std::int32_t>(std::ranges::find(options.class_names, name) -
                                               options.class_names.begin()));
  for (std::int32_t& one : labels)
    if (one != ignored_target) one = places[one];
}

bool is_usable(const Values& values, bool is_categorical) {
  return !values.texts.empty() && (!is_categorical || values.texts.size() <= most_categories);
}

// Returns how the columns become features.
std::vector<NodeColumn> columns_of(const Nodes& nodes) {
  std::vector<NodeColumn> columns;
  for (std::size_t i = 0; i < nodes.features.size(); ++i) {
    const std::string& name = nodes.table.names[nodes.features[i]];
    const Values& values = nodes.values[i];
    const bool is_categorical = std::ranges::count(nodes.options.categorical, name) > 0;
    expect_option(is_categorical || values.text_line == 0, "categorical_columns",
                  "{}: line {}: column {}: expected a number, found a text; enter a number",
                  nodes.path(), values.text_line, shown(name));
    expect_option(!values.texts.empty(), "ignore_columns",
                  "{}: column {}: expected values, found only empty cells; enter values",
                  nodes.path(), shown(name));
    expect_option(is_usable(values, is_categorical), "ignore_columns",
                  "{}: line {}: column {}: expected numbers or at most {} categories, found more; "
                  "join some of them",
                  nodes.path(), values.last_line, shown(name), most_categories);
    NodeColumn column{.name = name};
    if (is_categorical) {
      column.categories.emplace(values.texts.begin(), values.texts.end());
    } else if (!values.has_only_bits) {
      column.is_standardized = true;
      column.mean = values.mean;
      column.deviation = values.squares > 0 ? std::sqrt(values.squares / values.count) : 1;
    }
    columns.push_back(std::move(column));
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
  Encoder(const Nodes& nodes, const std::vector<NodeColumn>& columns) : nodes_(nodes) {
    for (const NodeColumn& column : columns) {
      const auto found = std::ranges::find(nodes.table.names, column.name);
      nodes.table.file.header().expect(
          found != nodes.table.names.end(),
          "no column is named {}, which this model was trained on; give the data of this model",
          shown(column.name));
      Place place{.column = &column,
                  .cell = static_cast<std::size_t>(found - nodes.table.names.begin()),
                  .first = width_};
      if (column.categories)
        for (const std::string& name : *column.categories)
          place.categories.emplace(name, static_cast<std::int32_t>(place.categories.size()));
      width_ += column.categories ? std::ssize(*column.categories) : 1;
      places_.push_back(std::move(place));
    }
  }

  // Sets the features of the graph: sparse if at most an eighth of them can be other than 0.
  // Returns the number of cells without a value, or of an unknown category.
  std::int64_t encode(NodeGraph& graph) const {
    const std::int64_t N = std::ssize(nodes_.ids);
    const bool is_sparse = width_ / 8 >= std::ssize(places_);
    expect_input(is_sparse || width_ <= most_values / N,
                 "{}: {} nodes with {} features; expected at most {} values; give fewer nodes, or "
                 "train with fewer columns",
                 nodes_.path(), N, width_, most_values);
    std::vector<Edge> entries;  // from feature to node
    std::vector<float> values;
    Array dense = is_sparse ? Array() : Array::zeros({N, width_});
    std::int32_t node = 0;
    std::int64_t missing = 0;
    nodes_.table.for_each_row(
        [&](const FileLine& line, const std::vector<std::string_view>& cells) {
          for (const Place& place : places_) {
            const auto [feature, value] = of_cell(place, cells[place.cell], line);
            missing += feature < 0;
            if (feature < 0 || value == 0) continue;
            if (is_sparse) {
              entries.push_back({feature, node});
              values.push_back(value);
            } else {
              dense.mutable_values<float>()[node * width_ + feature] = value;
            }
          }
          ++node;
        });
    graph.features = is_sparse ? Array::of(values, {std::ssize(values), 1}) : dense;
    if (is_sparse) graph.entries.emplace(width_, N, std::move(entries));
    return missing;
  }

 private:
  struct Place {
    const NodeColumn* column;
    std::size_t cell;    // number of the column in the table
    std::int64_t first;  // its first feature
    std::unordered_map<std::string, std::int32_t> categories{};
  };
  struct Feature {
    std::int32_t feature;  // -1: the cell has none
    float value;
  };

  Feature of_cell(const Place& place, std::string_view cell, const FileLine& line) const {
    const auto first = static_cast<std::int32_t>(place.first);
    if (place.column->categories) {
      const auto found = place.categories.find(csv_text(cell));
      return found == place.categories.end() ? Feature{-1, 0} : Feature{first + found->second, 1};
    }
    const std::optional<float> number = csv_number(cell, nodes_.options.decimal);
    if (number)
      return {first, static_cast<float>((*number - place.column->mean) / place.column->deviation)};
    line.expect(is_missing(cell), "column {}: \"{}\" is not a float32 number; enter one",
                shown(place.column->name), shown(cell));
    return {-1, 0};
  }

  const Nodes& nodes_;
  std::int64_t width_ = 0;
  std::vector<Place> places_{};
};

// Returns the numbers of the two columns with the ends of the edges.
std::pair<std::size_t, std::size_t> ends_of(const Table& edges, const Nodes& nodes) {
  const FileLine header = edges.file.header();
  const auto source = edges.column_of({"source", "from", "src"}),
             target = edges.column_of({"target", "to", "dst"});
  const std::size_t first = edges.names.front() == index_column ? 1 : 0;
  header.expect(edges.names.size() >= first + 2, "expected the columns source and target, found {}",
                list_briefly(edges.names));
  const auto ends = source && target ? std::pair(*source, *target) : std::pair(first, first + 1);
  header.expect(
      !nodes.numbers.contains(edges.names[ends.first]) ||
          !nodes.numbers.contains(edges.names[ends.second]),
      "expected a header such as source,target, found the ids of two nodes; add a header");
  return ends;
}

void read_edges(NodeTables& read, const Nodes& nodes, const std::string& folder) {
  const Table table(table_path(folder, "edges.csv"));
  const std::pair<std::size_t, std::size_t> ends = ends_of(table, nodes);
  for (std::size_t j = 0; j < table.names.size(); ++j)
    if (j != ends.first && j != ends.second && table.names[j] != index_column)
      read.unused_edge_columns.push_back(table.names[j]);
  std::vector<Edge> edges;
  table.for_each_row([&](const FileLine& line, const std::vector<std::string_view>& cells) {
    const auto node_in = [&](std::size_t column) {
      const std::string id = csv_text(cells[column]);
      const auto found = nodes.numbers.find(id);
      line.expect(found != nodes.numbers.end(),
                  "node \"{}\" is not among the {} of {}; remove the edge, or add the node",
                  shown(id), counted(std::ssize(nodes.ids), "node"), nodes.path());
      return found->second;
    };
    const Edge edge{node_in(ends.first), node_in(ends.second)};
    if (edge.from == edge.to)
      ++read.self_loops;
    else
      edges.push_back(edge);
  });
  expect_input(!edges.empty(),
               "{}: no row joins two different nodes; expected the ids of two nodes in each row",
               table.file.header().path);
  const std::int64_t N = std::ssize(nodes.ids), rows = std::ssize(edges);
  const bool directed = nodes.options.directed;
  read.graph.graph =
      directed ? Adjacency(N, std::move(edges)) : Adjacency::undirected(N, std::move(edges));
  read.repeated_edges = rows - read.graph.graph.edges() / (directed ? 1 : 2);
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
std::int64_t move_shares(NodeGraph& graph, const Nodes& nodes, const SplitShares& shares) {
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
std::int64_t divide(NodeGraph& graph, const Nodes& nodes) {
  const NodeTableOptions& options = nodes.options;
  for (std::size_t node = 0; node < nodes.ids.size(); ++node) {
    if (nodes.labels[node] == ignored_target) continue;
    const NodeUse use = nodes.split ? nodes.uses[node] : NodeUse::training;
    if (use == NodeUse::training) graph.training.push_back(static_cast<std::int64_t>(node));
    if (use == NodeUse::validation) graph.validation.push_back(static_cast<std::int64_t>(node));
    if (use == NodeUse::test) graph.test.push_back(static_cast<std::int64_t>(node));
  }
  std::int64_t moved = 0;
  const double test_share = nodes.split ? 0 : options.test_share;
  if (options.rules == 1) {
    if (graph.validation.empty())
      move_share(graph.training, graph.validation, options.validation_share, nodes.labels);
    move_share(graph.training, graph.test, test_share / (1 - options.validation_share),
               nodes.labels);
  } else if (graph.validation.empty()) {
    moved = move_shares(graph, nodes, {.validation = options.validation_share, .test = test_share});
  }
  expect_option(!nodes.split || !graph.training.empty(), "split_column",
                "{}: column {}: no node with a label is for training; enter train for some nodes",
                nodes.path(), shown(options.split_column));
  expect_option(
      !graph.training.empty() && !graph.validation.empty(), "validation_fraction",
      "{}: {} with labels of {}, but {} for training and {} for validation; expected at "
      "least one each; label more nodes",
      nodes.path(),
      counted(std::ssize(graph.training) + std::ssize(graph.validation) + std::ssize(graph.test),
              "node"),
      counted(std::ssize(options.class_names), "class", "classes"), graph.training.size(),
      graph.validation.size());
  return moved;
}

// Puts all nodes with labels into the validation split. Throws InputError if there are none.
void take_whole(NodeGraph& graph, const Nodes& nodes) {
  for (std::size_t node = 0; node < nodes.ids.size(); ++node)
    if (nodes.labels[node] != ignored_target)
      graph.validation.push_back(static_cast<std::int64_t>(node));
  expect_input(!graph.validation.empty(),
               "{}: no node has a label; expected at least one; label some nodes", nodes.path());
}

// Throws InputError for a class without training nodes.
void check_classes(const NodeGraph& graph, const std::string& path) {
  std::set<std::int32_t> trained;
  for (const std::int64_t node : graph.training) trained.insert(graph.labels[node]);
  for (const auto* split : {&graph.validation, &graph.test})
    for (const std::int64_t node : *split)
      expect_input(
          trained.contains(graph.labels[node]),
          "{}: line {}: no node of the training split has class {}; move one to that split", path,
          Nodes::line_of(node), shown(graph.classes[graph.labels[node]]));
}

}  // namespace

bool is_node_table_folder(const std::string& path) {
  std::error_code unseen;
  return fs::is_directory(path, unseen) && find_table(path, "nodes.csv").has_value();
}

NodeTableOptions detect_node_tables(const std::string& path, const NodeTableOptions& given) {
  const Nodes nodes(path, given);
  NodeTableOptions options = nodes.options;
  for (std::size_t i = 0; given.categorical.empty() && i < nodes.features.size(); ++i)
    if (nodes.values[i].text_line > 0)
      options.categorical.push_back(nodes.table.names[nodes.features[i]]);
  return options;
}

std::vector<std::string> unusable_columns(const std::string& path,
                                          const NodeTableOptions& options) {
  const Nodes nodes(path, options);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < nodes.features.size(); ++i)
    if (!is_usable(nodes.values[i], nodes.values[i].text_line > 0))
      names.push_back(nodes.table.names[nodes.features[i]]);
  return names;
}

NodeTables load_node_tables(const std::string& path, const NodeTableOptions& given,
                            const std::vector<NodeColumn>& trained) {
  const Nodes nodes(path, given);
  NodeTables read{.columns = trained.empty() ? columns_of(nodes) : trained};
  read.has_features = read.columns.front().name != nodes.options.id_column;
  read.graph = {.labels = nodes.labels, .names = nodes.ids, .classes = nodes.options.class_names};
  read_edges(read, nodes, path);
  if (given.whole)
    take_whole(read.graph, nodes);
  else
    read.moved = divide(read.graph, nodes);
  if (trained.empty()) check_classes(read.graph, nodes.path());
  read.missing_cells = Encoder(nodes, read.columns).encode(read.graph);
  return read;
}

}  // namespace tapestry
