#include "train/tasks/graphs/graph_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "autograd/counted.hpp"
#include "data/graphs/node_tables.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/tasks/classification.hpp"

namespace tapestry {
namespace {

const Condition of_citations = key::graph_kind.is(key::GraphKind::citations),
                of_tables = key::graph_kind.is(key::GraphKind::csv);
const Key<std::int64_t> synthetic_graphs{
    "data.examples",
    100'000,
    "training graphs",
    {.low = 1, .high = 1e9, .used_if = {key::of_drawn_graphs}}};
const Key<std::int64_t> synthetic_validation{
    "data.held_back",
    1000,
    "number of validation graphs, none of which is a training graph",
    {.low = 1, .high = 1e6, .used_if = {key::of_drawn_graphs}}};
const Key<std::int64_t> least_nodes{"data.least_nodes",
                                    12,
                                    "smallest number of nodes of a synthetic graph",
                                    {.low = 12, .high = 1000, .used_if = {key::of_drawn_graphs}}};
const Key<std::int64_t> most_nodes{"data.most_nodes",
                                   24,
                                   "largest number of nodes of a synthetic graph",
                                   {.low = 12, .high = 1000, .used_if = {key::of_drawn_graphs}}};
const Key<std::vector<std::int64_t>> labeled{
    "data.labeled",
    {1, 34},
    "members of the karate club whose class is known",
    {.low = 1,
     .high = 34,
     .used_if = {key::graph_kind.is(key::GraphKind::karate)},
     .old_names = {"data.labelled"}}};
const Key<std::int64_t> training_nodes{"data.training_nodes",
                                       140,
                                       "training nodes: the first lines of the content file",
                                       {.low = 1, .high = 1e9, .used_if = {of_citations}}};
const Key<std::int64_t> validation_nodes{"data.validation_nodes",
                                         500,
                                         "validation nodes: the lines after the training nodes",
                                         {.low = 1, .high = 1e9, .used_if = {of_citations}}};
const Key<std::int64_t> test_nodes{"data.test_nodes",
                                   1000,
                                   "test nodes: the last lines",
                                   {.low = 1, .high = 1e9, .used_if = {of_citations}}};

const Key<std::string> id_column{"data.id_column",
                                 "",
                                 "name of the column of nodes.csv with the ids; empty: detected",
                                 {.used_if = {of_tables}}};
const Key<std::string> label_column{
    "data.label_column",
    "",
    "name of the column with the classes, where an empty cell is a node without label; empty: "
    "detected",
    {.used_if = {of_tables}}};
const Key<std::string> split_column{
    "data.split_column",
    "",
    "name of a column with train, validation, test or nothing; none: nodes are divided by "
    "fractions; empty: detected",
    {.used_if = {of_tables}}};
const Choice<char> decimal_mark{"data.decimal",
                                detected,
                                "decimal mark of the numbers in nodes.csv",
                                {{"auto", detected}, {".", '.'}, {",", ','}},
                                {of_tables}};
const Key<std::vector<std::string>> categorical_columns{
    "data.categorical_columns",
    {},
    "columns of which each text becomes a feature that is 0 or 1; empty: those with texts",
    {.used_if = {of_tables}}};
const Key<std::vector<std::string>> ignore_columns{"data.ignore_columns",
                                                   {},
                                                   "columns of nodes.csv that are no features",
                                                   {.used_if = {of_tables}}};
const Key<bool> directed{"data.directed",
                         false,
                         "a node reads only the sources of its edges, not their targets",
                         {.used_if = {of_tables}}};
const Key<double> validation_part{
    "data.validation_fraction",
    0.2,
    "fraction of each class for validation, if no column says which nodes are",
    {.low = 0.0001, .high = 0.9, .used_if = {of_tables}}};
const Key<double> test_part{"data.test_fraction",
                            0.2,
                            "fraction of each class for testing, if there is no split column",
                            {.low = 0, .high = 0.9, .used_if = {of_tables}}};

GraphData of_nodes(NodeGraph graph) {
  const auto whole = std::make_shared<const NodeGraph>(std::move(graph));
  const auto part = [&](const std::vector<std::int64_t>& nodes) {
    return nodes.empty() ? nullptr : std::make_unique<NodeDataset>(whole, nodes);
  };
  return {.inputs = whole->inputs(),
          .classes = whole->classes,
          .training = part(whole->training),
          .validation = part(whole->validation),
          .test = part(whole->test),
          .whole = whole};
}

// Returns the classes that a model was trained on, from a checkpoint's metadata. Throws InputError
// if they are not recorded.
std::vector<std::string> trained_classes(const TaskSetup& setup) {
  const auto kept = setup.metadata.find("classes");
  setup.config.expect(kept != setup.metadata.end(), key::graph_kind,
                      "the run does not record its classes; leave out --data");
  std::vector<std::string> classes;
  constexpr std::string_view between = ", ";
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + between.size()) {
    end = kept->second.find(between, begin);
    classes.push_back(kept->second.substr(begin, end - begin));
  }
  return classes;
}

NodeGraph citations(const TaskSetup& setup) {
  const Config& config = setup.config;
  const std::string& path = key::required_path(
      config, "no graph", std::string(node_graph_files) + " with --set data.path=FOLDER");
  config.expect(!is_node_table_folder(path), key::graph_kind,
                "{} has nodes.csv; set data.kind = \"csv\" to read it", path);
  NodeSplit split{.training = config[training_nodes],
                  .validation = config[validation_nodes],
                  .test = config[test_nodes]};
  if (setup.whole_data) split = {.whole_of = trained_classes(setup)};
  return with_keys(
      config,
      {{"training", training_nodes, "lower this value, data.validation_nodes or data.test_nodes"}},
      [&] { return load_node_graph(path, split); });
}

GraphData of_graphs(const Config& config) {
  config.expect(config[least_nodes] <= config[most_nodes], most_nodes,
                "must be at least data.least_nodes = {}", config[least_nodes]);
  const auto part = [&](Split split) {
    return std::make_unique<SyntheticGraphs>(SyntheticGraphOptions{
        .least_nodes = config[least_nodes],
        .most_nodes = config[most_nodes],
        .examples = config[split == Split::train ? synthetic_graphs : synthetic_validation],
        .seed = seed_of(config),
        .split = split});
  };
  GraphData graphs{
      .inputs = 1, .classes = SyntheticGraphs::classes(), .training = part(Split::train)};
  auto validation = part(Split::validation);
  graphs.drawn = validation.get();
  graphs.validation = std::move(validation);
  return graphs;
}

NodeTableOptions table_options(const Config& config) {
  return {.id_column = config[id_column],
          .label_column = config[label_column],
          .split_column = config[split_column],
          .decimal = config[decimal_mark],
          .class_names = config[key::class_names],
          .categorical = config[categorical_columns],
          .ignored = config[ignore_columns],
          .directed = config[directed],
          .validation_share = config[validation_part],
          .test_share = config[test_part],
          .rules = config[key::data_rules]};
}

// Returns what `read` returns, which reads tables. Throws InputError that names the key of an
// option that does not fit the tables.
template <class Read>
auto with_table_keys(const Config& config, Read read) {
  return with_keys(
      config,
      {{"id_column", id_column, "give the name of a column"},
       {"label_column", label_column, "to read another column, set this key to its name"},
       {"split_column", split_column, "or give another column, or \"none\""},
       {"class_names", key::class_names, "correct the label, or list the class here"},
       {"categorical", categorical_columns, "list all columns with texts here"},
       {"ignored", ignore_columns, "list the columns to leave out here"},
       {"share", validation_part, "or change this value"}},
      read);
}

constexpr const char* kept_columns = "columns";  // name of the metadata

std::string columns_json(const std::vector<NodeColumn>& columns) {
  JsonValue all = JsonValue::array();
  for (const NodeColumn& column : columns)
    all.push_back(column.categories
                      ? JsonValue{{"name", column.name}, {"categories", *column.categories}}
                      : JsonValue{{"name", column.name},
                                  {"standardized", column.is_standardized},
                                  {"mean", column.mean},
                                  {"deviation", column.deviation}});
  return all.dump();
}

std::vector<NodeColumn> columns_from(const std::map<std::string, std::string>& trained) {
  std::vector<NodeColumn> columns;
  if (trained.empty()) return columns;
  for (const JsonValue& kept : JsonValue::parse(kept_value(trained, kept_columns))) {
    NodeColumn column{.name = kept["name"].get<std::string>()};
    if (kept.contains("categories")) {
      column.categories = kept["categories"].get<std::vector<std::string>>();
    } else {
      column.is_standardized = kept["standardized"].get<bool>();
      column.mean = kept["mean"].get<double>();
      column.deviation = kept["deviation"].get<double>();
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

// Returns "5 (2 columns of numbers, standardized; 1 column of categories, one-hot)".
std::string features_text(const NodeTables& tables) {
  if (!tables.has_features) return "none but the id of each node, one-hot";
  std::int64_t categorical = 0, standardized = 0, kept = 0;
  for (const NodeColumn& column : tables.columns)
    ++(column.categories ? categorical : column.is_standardized ? standardized : kept);
  std::vector<std::string> parts;
  for (const auto& [number, what] :
       {std::pair{standardized, " of numbers, standardized"}, std::pair{kept, " of 0 and 1"},
        std::pair{categorical, " of categories, one-hot"}})
    if (number > 0) parts.push_back(counted(number, "column") + what);
  return fmt::format("{} ({})", tables.graph.inputs(), fmt::join(parts, "; "));
}

// Returns messages about moved nodes, missing cells, edges that were left out, and columns that are
// not used.
std::vector<std::string> exceptions(const NodeTables& tables) {
  std::vector<std::string> all;
  if (tables.moved > 0)
    all.push_back(counted(tables.moved, "node") + " moved to a split without its class");
  if (tables.missing_cells > 0)
    all.push_back(counted(tables.missing_cells, "cell") +
                  " without a known value: the mean of the column, or no category");
  if (tables.self_loops > 0)
    all.push_back(counted(tables.self_loops, "edge") +
                  " from a node to itself left out (a layer reads each node itself)");
  if (tables.repeated_edges > 0)
    all.push_back(counted(tables.repeated_edges, "repeated edge") + " left out");
  if (!tables.unused_edge_columns.empty())
    all.push_back(fmt::format("not used of edges.csv: {}",
                              printable(list_briefly(tables.unused_edge_columns))));
  return all;
}

std::int64_t unlabeled(const NodeGraph& graph) {
  return std::ranges::count(graph.labels, ignored_target);
}

// Returns the number of edges. The two directions of an undirected edge count once.
std::int64_t edges_of(const NodeGraph& graph, bool are_directed) {
  return graph.graph.edges() / (are_directed ? 1 : 2);
}

std::string remark_of(const NodeTables& tables, bool are_directed) {
  const NodeGraph& graph = tables.graph;
  std::string text = fmt::format(
      "graph: {}, {} {}; features: {}; {}: {}; {} for training, {} for validation, {} for test, {} "
      "without a label",
      counted(graph.graph.nodes(), "node"), edges_of(graph, are_directed),
      are_directed ? "directed edges" : "undirected edges", features_text(tables),
      counted(std::ssize(graph.classes), "class", "classes"),
      printable(list_briefly(graph.classes)), graph.training.size(), graph.validation.size(),
      graph.test.size(), unlabeled(graph));
  for (const std::string& exception : exceptions(tables)) text += "; " + exception;
  return text;
}

GraphData of_tables_at(const TaskSetup& setup) {
  Config config = setup.config;
  const std::map<std::string, std::string>& trained = setup.metadata;
  if (trained.empty()) detect_graphs(config);
  if (setup.whole_data) config.set(split_column, std::string(no_column));
  const std::string& path = key::required_path(
      config, "no graph", std::string(node_table_files) + " with --set data.path=FOLDER");
  config.expect(config[validation_part] + config[test_part] < 1, test_part,
                "the sum with data.validation_fraction = {} must be below 1",
                config[validation_part]);
  NodeTableOptions options = table_options(config);
  options.whole = setup.whole_data;
  NodeTables tables = with_table_keys(
      config, [&] { return load_node_tables(path, options, columns_from(trained)); });
  std::string remark = remark_of(tables, config[directed]);
  GraphData data = of_nodes(std::move(tables.graph));
  data.remark = std::move(remark);
  data.metadata[kept_columns] = columns_json(tables.columns);
  return data;
}

}  // namespace

std::vector<KeyInfo> graph_data_keys() {
  KeyInfo class_names = key::class_names;
  class_names.limits.used_if.push_back(of_tables);
  return {key::graph_kind,  key::data_source, synthetic_graphs, synthetic_validation,
          least_nodes,      most_nodes,       labeled,          training_nodes,
          validation_nodes, test_nodes,       id_column,        label_column,
          split_column,     decimal_mark,     class_names,      categorical_columns,
          ignore_columns,   directed,         validation_part,  test_part};
}

GraphData load_graphs(const TaskSetup& setup) {
  const Config& config = setup.config;
  switch (config[key::graph_kind]) {
    case key::GraphKind::drawn:
      key::expect_no_path(config);
      return of_graphs(config);
    case key::GraphKind::karate:
      key::expect_no_path(config);
      return of_nodes(
          with_keys(config, {{"labeled", labeled}}, [&] { return karate_club(config[labeled]); }));
    case key::GraphKind::citations:
      return of_nodes(citations(setup));
    case key::GraphKind::csv:
      return of_tables_at(setup);
  }
  throw_unhandled(key::graph_kind);
}

void detect_graphs(Config& config) {
  const std::string& path = config[key::data_path];
  if (config[key::graph_kind] != key::GraphKind::csv || !is_node_table_folder(path)) return;
  const bool is_complete = !config[id_column].empty() && !config[label_column].empty() &&
                           !config[split_column].empty() && !config[key::class_names].empty();
  if (is_complete && config[decimal_mark] != detected) return;
  const NodeTableOptions found =
      with_table_keys(config, [&] { return detect_node_tables(path, table_options(config)); });
  config.detect(id_column, found.id_column);
  config.detect(label_column, found.label_column);
  config.detect(split_column, found.split_column);
  config.detect(decimal_mark, found.decimal);
  config.detect(key::class_names, found.class_names);
  config.detect(categorical_columns, found.categorical);
}

namespace {

// Sets what is found in nodes.csv and edges.csv. Throws InputError if they cannot be read, because
// no other kind of data has files of these names.
void recognize_tables(Recognized& found, const std::string& path) {
  NodeTableOptions options = detect_node_tables(path);
  const std::vector<std::string> unusable = unusable_columns(path, options);
  if (!unusable.empty()) {
    options = detect_node_tables(path, {.ignored = unusable});
    found.settings.push_back(
        {ignore_columns.name, unusable, "no values, or too many different texts"});
  }
  const NodeTables tables = load_node_tables(path, options);
  const NodeGraph& graph = tables.graph;
  const std::int64_t N = std::ssize(graph.training);
  found.facts = {{"nodes", graph.graph.nodes()},
                 {"edges", edges_of(graph, options.directed)},
                 {"features", features_text(tables)},
                 {"id column", printable(options.id_column)},
                 {"label column", printable(options.label_column)},
                 {"classes", std::ssize(graph.classes)},
                 {"class names", printable(list_briefly(graph.classes))},
                 {"training nodes", N},
                 {"validation nodes", std::ssize(graph.validation)},
                 {"test nodes", std::ssize(graph.test)},
                 {"nodes without label", unlabeled(graph)},
                 {"split", options.split_column == no_column
                               ? std::string("about 20 % of each class for validation and test")
                               : "column " + printable(options.split_column)}};
  found.problems = exceptions(tables);
  const std::int64_t labels = graph.graph.nodes() - unlabeled(graph);
  if (std::ssize(graph.classes) > labels / 5)
    found.problems.push_back(fmt::format(
        "column {} has {} for {}; a class needs several labels", printable(options.label_column),
        counted(std::ssize(graph.classes), "class", "classes"), counted(labels, "label")));
  found.fit = Recognized::Fit::certain;
  found.base = "cora";
  const auto evaluated = std::ssize(graph.validation) + std::ssize(graph.test);
  found.settings.push_back({key::graph_kind.name, key::graph_kind.name_of(key::GraphKind::csv)});
  found.settings.push_back(
      {directed.name, false, "true: a node reads only the sources of its edges"});
  found.settings.push_back({key::batch_size.name, N, "all training nodes"});
  found.settings.push_back({key::eval_batch_size.name, evaluated, "all others with a label"});
  found.examples = static_cast<double>(N);
  found.most_epochs = 300;
}

}  // namespace

std::vector<Recognized> recognize_graphs(const std::string& path) {
  Recognized found{.name = "graph", .kind = "a graph of nodes.csv and edges.csv"};
  if (is_node_table_folder(path))
    recognize_tables(found, path);
  else
    found.refusal = fmt::format("{}: no file nodes.csv; expected {}", path, node_table_files);
  return {found};
}

}  // namespace tapestry
