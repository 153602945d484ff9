#include "train/tasks/graphs/graph_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "autograd/counted.hpp"
#include "data/graphs/node_columns.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/table_settings.hpp"

namespace tapestry {
namespace {

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
          .whole = whole,
          .remark = whole->remark};
}

// Returns the classes that a model was trained on, from a checkpoint's metadata. Throws InputError
// if they are not recorded.
std::vector<std::string> trained_classes(const TaskSetup& setup,
                                         const Given<GraphSettings>& given) {
  const auto kept = setup.metadata.find("classes");
  given.expect(kept != setup.metadata.end(), "kind",
               "the run does not record its classes; leave out --data");
  std::vector<std::string> classes;
  constexpr std::string_view between = ", ";
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + between.size()) {
    end = kept->second.find(between, begin);
    classes.push_back(kept->second.substr(begin, end - begin));
  }
  return classes;
}

NodeGraph citations(const TaskSetup& setup, const Given<GraphSettings>& given) {
  const std::string& path = given.required_path(
      "no graph", std::string(node_graph_files) + " with --set data.path=FOLDER");
  given.expect(!is_node_table_folder(path), "kind",
               "{} has nodes.csv; set data.kind = \"csv\" to read it", path);
  NodeSplit split = given.citations;
  if (setup.whole_data) split = {.whole_of = trained_classes(setup, given)};
  return given.checked([&] { return load_node_graph(path, split); });
}

GraphData of_graphs(const Given<GraphSettings>& given) {
  given.expect_no_path();
  given.expect(given.drawn.least_nodes <= given.drawn.most_nodes, "most_nodes",
               "must be at least data.least_nodes = {}", given.drawn.least_nodes);
  const auto part = [&](Split split) {
    SyntheticGraphOptions options = given.drawn;
    options.split = split;
    if (split != Split::train) options.examples = given.held_back;
    return std::make_unique<SyntheticGraphs>(options);
  };
  GraphData graphs{
      .inputs = 1, .classes = SyntheticGraphs::classes(), .training = part(Split::train)};
  auto validation = part(Split::validation);
  graphs.drawn = validation.get();
  graphs.validation = std::move(validation);
  return graphs;
}

constexpr const char* kept_columns = "columns";  // name of the metadata

std::string columns_json(const std::vector<NodeColumn>& columns) {
  JsonValue all = JsonValue::array();
  for (const NodeColumn& column : columns)
    if (column.categories) {
      all.push_back({{"name", column.name}, {"categories", *column.categories}});
    } else {
      JsonValue kept{{"name", column.name},
                     {"standardized", column.is_standardized},
                     {"mean", column.mean},
                     {"deviation", column.deviation}};
      if (column.range)
        kept["range"] = JsonValue::array({column.range->first, column.range->second});
      all.push_back(std::move(kept));
    }
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
      if (kept.contains("range"))
        column.range.emplace(kept["range"][0].get<double>(), kept["range"][1].get<double>());
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

// Returns messages about nodes, cells, edges and columns that are not used as they are.
std::vector<std::string> exceptions(const NodeTables& tables, bool are_directed) {
  std::vector<std::string> all = tables.remarks;
  if (tables.says_directed && !are_directed)
    all.push_back("edges.csv says Directed; with data.directed = true they are not read backwards");
  const auto say = [&](const Found& found, const char* what, const char* why) {
    if (found.count > 0)
      all.push_back(fmt::format("{} {}, the first in line {}", counted(found.count, what), why,
                                found.first_line));
  };
  if (tables.moved > 0)
    all.push_back(counted(tables.moved, "node") + " moved to a split without its class");
  if (tables.negative_labels > 0)
    all.push_back(counted(tables.negative_labels, "label") + " -1 taken for no label");
  say(tables.without_split, "node", "with a label in no split");
  say(tables.missing_cells, "cell",
      "without a known value: the mean of the column, or no category");
  say(tables.self_loops, "edge", "from a node to itself left out (a layer reads each node itself)");
  say(tables.repeated_edges, "repeated edge", "left out");
  for (const auto& [file, columns] : {std::pair("nodes.csv", &tables.row_numbers),
                                      std::pair("edges.csv", &tables.unused_edge_columns)})
    if (!columns->empty())
      all.push_back(fmt::format("not used of {}: {}", file, printable(list_briefly(*columns))));
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
  for (const std::string& exception : exceptions(tables, are_directed)) text += "; " + exception;
  return text;
}

GraphData of_tables_at(const TaskSetup& setup) {
  const Given<GraphSettings> given = graph_settings.of(setup.config);
  const std::string& path = given.required_path(
      "no graph", std::string(node_table_files) + " with --set data.path=FOLDER");
  NodeTableOptions options = given.tables();
  given.expect(options.validation_share + options.test_share < 1, "test_fraction",
               "the sum with data.validation_fraction = {} must be below 1",
               options.validation_share);
  options.whole = setup.whole_data;
  if (options.whole) options.split_column = no_column;
  NodeTables tables =
      given.checked([&] { return load_node_tables(path, options, columns_from(setup.metadata)); });
  std::string remark = remark_of(tables, options.directed);
  GraphData data = of_nodes(std::move(tables.graph));
  data.remark = std::move(remark);
  data.metadata[kept_columns] = columns_json(tables.columns);
  data.unusual = std::move(tables.unusual);
  data.table = PredictorInput{
      .path = *find_table(path, "nodes.csv"),
      .delimiter = options.table.delimiter == detected ? ',' : options.table.delimiter,
      .has_header = options.table.header != Header::absent};
  return data;
}

const auto drawn = &GraphSettings::drawn;
const auto of_citations = &GraphSettings::citations;
const Condition is_drawn = key_is("data.kind", "drawn"),
                is_citations = key_is("data.kind", "citations"),
                is_csv = key_is("data.kind", "csv");

using GraphRow = Bound<GraphSettings>;

// The names of the settings that are found in the tables.
const std::vector<std::string> detected_options = {
    "delimiter",      "decimal",      "thousands",    "header",
    "id_column",      "label_column", "split_column", "categorical_columns",
    "ignore_columns", "edge_columns", "edge_header"};

GraphRow class_names_setting() {
  GraphRow row(key::class_names, &GraphSettings::class_names,
               "correct the label, or list the class here");
  row.limits.used_if.push_back(is_csv);
  return row;
}

}  // namespace

const SettingsOf<GraphSettings> graph_settings = [] {
  using S = GraphSettings;
  std::vector<GraphRow> rows{
      GraphRow("data.kind", &S::kind,
               "synthetic graphs to classify, or a graph with nodes to classify: the karate-club "
               "graph, a citation data set, or tables (nodes.csv, edges.csv)",
               {{"drawn", GraphKind::drawn},
                {"karate", GraphKind::karate},
                {"citations", GraphKind::citations},
                {"csv", GraphKind::csv}}),
      GraphRow(key::data_path, &S::path),
      GraphRow(key::data_source, &S::source),
      GraphRow(key::seed, within(drawn, &SyntheticGraphOptions::seed)),
      GraphRow(key::data_rules, &S::rules),
      GraphRow("data.examples", within(drawn, &SyntheticGraphOptions::examples), "training graphs",
               {.low = 1, .high = 1e9, .used_if = {is_drawn}}),
      GraphRow("data.held_back", &S::held_back,
               "number of validation graphs, none of which is a training graph",
               {.low = 1, .high = 1e6, .used_if = {is_drawn}}),
      GraphRow("data.least_nodes", within(drawn, &SyntheticGraphOptions::least_nodes),
               "smallest number of nodes of a synthetic graph",
               {.low = 12, .high = 1000, .used_if = {is_drawn}}),
      GraphRow("data.most_nodes", within(drawn, &SyntheticGraphOptions::most_nodes),
               "largest number of nodes of a synthetic graph",
               {.low = 12, .high = 1000, .used_if = {is_drawn}}),
      GraphRow("data.labeled", &S::labeled, "members of the karate club whose class is known",
               {.low = 1,
                .high = 34,
                .used_if = {key_is("data.kind", "karate")},
                .old_names = {"data.labelled"}}),
      GraphRow("data.training_nodes", within(of_citations, &NodeSplit::training),
               "training nodes: the first lines of the content file",
               {.low = 1,
                .high = 1e9,
                .used_if = {is_citations},
                .advice = "lower this value, data.validation_nodes or data.test_nodes"}),
      GraphRow("data.validation_nodes", within(of_citations, &NodeSplit::validation),
               "validation nodes: the lines after the training nodes",
               {.low = 1, .high = 1e9, .used_if = {is_citations}}),
      GraphRow("data.test_nodes", within(of_citations, &NodeSplit::test),
               "test nodes: the last lines", {.low = 1, .high = 1e9, .used_if = {is_citations}}),
      GraphRow("data.id_column", &S::id_column,
               "name of the column of nodes.csv with the ids; empty: detected",
               {.used_if = {is_csv}, .advice = "give the name of a column"}),
      GraphRow("data.label_column", &S::label_column,
               "name of the column with the classes, where an empty cell is a node without label; "
               "empty: detected",
               {.used_if = {is_csv},
                .advice = "to read another column, set data.label_column to its name"}),
      GraphRow(
          "data.split_column", &S::split_column,
          "name of a column with train, validation, test or nothing, or of masks, as in "
          "\"train_mask + val_mask + test_mask\"; none: nodes are divided by fractions; empty: "
          "detected",
          {.used_if = {is_csv}, .advice = "or give another column, or \"none\""}),
      class_names_setting(),
      GraphRow(
          "data.categorical_columns", &S::categorical,
          "columns of which each text becomes a feature that is 0 or 1; empty: those with texts",
          {.used_if = {is_csv}, .advice = "list all columns with texts here"}),
      GraphRow("data.ignore_columns", &S::ignored, "columns of nodes.csv that are no features",
               {.used_if = {is_csv}, .advice = "list the columns to leave out here"}),
      GraphRow(
          "data.columns", &S::columns,
          "columns of nodes.csv that are features; empty: all but those used otherwise and row "
          "numbers",
          {.used_if = {is_csv}, .advice = "list columns of nodes.csv in this key"}),
      GraphRow("data.edge_columns", &S::edge_columns,
               "columns of edges.csv with the ids of the source and the target; empty: detected",
               {.used_if = {is_csv},
                .advice = "set data.edge_columns to the two columns with the ends of the edges"}),
      GraphRow("data.edge_header", &S::edge_header,
               "whether the first row of edges.csv has the names of the columns",
               {{"auto", Header::detected}, {"yes", Header::present}, {"no", Header::absent}},
               {.used_if = {is_csv}, .advice = "set data.edge_header to \"yes\" or \"no\""}),
      GraphRow("data.directed", &S::directed,
               "a node reads only the sources of its edges, not their targets",
               {.used_if = {is_csv}}),
      GraphRow("data.validation_fraction", &S::validation_share,
               "fraction of each class for validation, if no column says which nodes are",
               {.low = 0.0001, .high = 0.9, .used_if = {is_csv}, .advice = "or change this value"}),
      GraphRow("data.test_fraction", &S::test_share,
               "fraction of each class for testing, if there is no split column",
               {.low = 0, .high = 0.9, .used_if = {is_csv}})};
  const std::vector<GraphRow> of_table = table_rows<S>({is_csv});
  rows.insert(rows.end(), of_table.begin(), of_table.end());
  return rows;
}();

GraphData load_graphs(const TaskSetup& setup) {
  const Given<GraphSettings> given = graph_settings.of(setup.config);
  switch (given.kind) {
    case GraphKind::drawn:
      return of_graphs(given);
    case GraphKind::karate:
      given.expect_no_path();
      return of_nodes(given.checked([&] { return karate_club(given.labeled); }));
    case GraphKind::citations:
      return of_nodes(citations(setup, given));
    case GraphKind::csv:
      return of_tables_at(setup);
  }
  throw_unhandled(graph_settings["kind"]);
}

void detect_graphs(Config& config) {
  Given<GraphSettings> given = graph_settings.of(config);
  if (given.kind != GraphKind::csv || !is_node_table_folder(given.path)) return;
  given.set_tables(given.checked([&] { return detect_node_tables(given.path, given.tables()); }));
  graph_settings.detect(config, given, detected_options);
  graph_settings.detect(config, given, {"class_names"});
}

namespace {

// Returns the files beside nodes.csv and edges.csv.
std::vector<std::string> other_files(const std::string& folder) {
  std::vector<std::string> names = file_names(folder);
  const auto nodes = find_table(folder, "nodes.csv"), edges = find_table(folder, "edges.csv");
  std::erase_if(names, [&](const std::string& name) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    return name.starts_with('.') || path == nodes || path == edges;
  });
  return names;
}

// Sets what is found in nodes.csv and edges.csv. Throws InputError if they cannot be read, because
// no other kind of data has files of these names.
void recognize_tables(Recognized& found, const UserData& data) {
  Given<GraphSettings> given = graph_settings.of(
      parse_config("task = \"graph\"\n[data]\nkind = \"csv\"\n", "init", data.overrides));
  if (!data.label.empty()) given.label_column = data.label;
  GraphSettings options = given;
  const auto detect = [&](NodeTableOptions known) {
    options.set_tables(detect_node_tables(data.path, known));
    return unusable_columns(data.path, options.tables());
  };
  const NodeTables tables = given.checked([&] {
    NodeTableOptions known = given.tables();
    if (const std::vector<std::string> unusable = detect(known); !unusable.empty()) {
      known.ignored = options.ignored;
      known.ignored.insert(known.ignored.end(), unusable.begin(), unusable.end());
      detect(known);
    }
    return load_node_tables(data.path, options.tables());
  });
  const NodeGraph& graph = tables.graph;
  const std::int64_t N = std::ssize(graph.training);
  found.facts = {
      {"nodes", graph.graph.nodes()},
      {"edges", edges_of(graph, options.directed)},
      {"features", features_text(tables)},
      {"id column", printable(options.id_column)},
      {"label column", printable(options.label_column)},
      {"edge columns", printable(fmt::format("{}", fmt::join(options.edge_columns, ", ")))},
      {"delimiter", graph_settings.text("delimiter", options)},
      {"decimal mark", graph_settings.text("decimal", options)},
      {"classes", std::ssize(graph.classes)},
      {"class names", printable(list_briefly(graph.classes))},
      {"training nodes", N},
      {"validation nodes", std::ssize(graph.validation)},
      {"test nodes", std::ssize(graph.test)},
      {"nodes without label", unlabeled(graph)},
      {"split", options.split_column == no_column
                    ? std::string("about 20 % of each class for validation and test")
                    : "column " + printable(options.split_column)}};
  found.problems = exceptions(tables, options.directed);
  note_class_names(found, graph.classes);
  if (const std::vector<std::string> others = other_files(data.path); !others.empty())
    found.problems.push_back("not used of the folder: " + printable(list_briefly(others)));
  add_column_uses(found, node_column_uses(data.path, options.tables()));
  const std::int64_t labels = graph.graph.nodes() - unlabeled(graph);
  if (std::ssize(graph.classes) > labels / 5)
    found.problems.push_back(fmt::format(
        "column {} has {} for {}; a class needs several labels", printable(options.label_column),
        counted(std::ssize(graph.classes), "class", "classes"), counted(labels, "label")));
  found.fit = Recognized::Fit::certain;
  found.base = "cora";
  const auto evaluated = std::ssize(graph.validation) + std::ssize(graph.test);
  found.settings.push_back({"data.kind", std::string("csv")});
  graph_settings.add_chosen(found.settings, options, detected_options, "found in the tables");
  found.settings.push_back(
      {"data.directed", false, "true: a node reads only the sources of its edges"});
  found.settings.push_back({key::batch_size.name, N, "all training nodes"});
  found.settings.push_back({key::eval_batch_size.name, evaluated, "all others with a label"});
  found.examples = static_cast<double>(N);
  found.most_epochs = 300;
}

}  // namespace

std::vector<Recognized> recognize_graphs(const UserData& data) {
  const std::string& path = data.path;
  Recognized found{.name = "graph", .kind = "a graph (nodes.csv, edges.csv)"};
  if (is_node_table_folder(path)) {
    recognize_tables(found, data);
  } else if (data.label.empty() && is_edge_table(path)) {
    found.fit = Recognized::Fit::similar;
    found.asks = true;
    found.refusal = fmt::format("{}: has the edges of a graph; to classify its nodes, give {}",
                                path, node_table_files);
  } else {
    found.refusal = fmt::format("{}: no file nodes.csv; expected {}", path, node_table_files);
  }
  return {found};
}

}  // namespace tapestry
