#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "autograd/counted.hpp"
#include "autograd/ops/reduce.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/json.hpp"
#include "data/table/records.hpp"
#include "data/text/printable.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/values.hpp"
#include "train/plot/figure.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/graphs/graph_task.hpp"
#include "train/tasks/inspectors.hpp"

namespace tapestry {
namespace {

const Key<std::string> prompt = prompt_option(
    "a graph's edges, or the name of a node (default: nodes of the test split, or of the "
    "validation split if there is none, or validation graphs)");
const Key<std::int64_t> count = count_option("40 nodes or 10 graphs", {prompt.is("")});
const Key<std::string> csv_file{
    "csv", "", "CSV file to write: the prediction of each node of a graph and its probability"};

std::string prediction(const std::vector<std::string>& classes, std::int32_t predicted,
                       std::int32_t label) {
  return classes[predicted] + "  " +
         (label == ignored_target ? "no label" : outcome(classes[predicted], classes[label]));
}

// Returns the logits (N, classes) of all nodes.
Array node_logits(GraphTask& task) {
  const Batch batch = NodeDataset(task.data().whole, {0}).batch({});
  const NodeFeatures x(batch.inputs, batch.part<GraphPart>().features);
  return task.model().forward(task.data().whole->graph, x, {}).value();
}

std::vector<std::string> splits_of(const NodeGraph& whole) {
  std::vector<std::string> splits(whole.names.size());
  for (const auto& [name, nodes] :
       {std::pair{"train", &whole.training}, std::pair{"val", &whole.validation},
        std::pair{"test", &whole.test}})
    for (const std::int64_t node : *nodes) splits[node] = name;
  return splits;
}

// Returns CSV with a row for each node. Throws InputError if a logit is not finite.
std::string predictions_csv(GraphTask& task) {
  const NodeGraph& whole = *task.data().whole;
  const Array logits = node_logits(task);
  expect_finite(logits.to(DType::float32));
  const Array any_class = Array::zeros({whole.graph.nodes()}, DType::int32);
  const std::vector<std::string> splits = splits_of(whole);
  std::string text = "id,label,split,prediction,probability\n";
  for (const ClassPrediction& one : class_predictions(logits, any_class)) {
    const std::int32_t label = whole.labels[one.example];
    text +=
        fmt::format("{},{},{},{},{:.4f}\n", csv_quoted(whole.names[one.example]),
                    label == ignored_target ? "" : csv_quoted(whole.classes[label]),
                    splits[one.example], csv_quoted(whole.classes[one.predicted]), one.probability);
  }
  return text;
}

// Returns a line such as "9  Mr. Hi  right" for the first --count nodes of the test split, or of
// the validation split if there is none, or for the node of --prompt. Throws InputError if no node
// has this name.
std::string sample_nodes(GraphTask& task, const Options& options) {
  const NodeGraph& whole = *task.data().whole;
  const std::vector<std::int32_t> predicted = likeliest(node_logits(task));
  std::vector<std::int64_t> nodes = whole.test.empty() ? whole.validation : whole.test;
  nodes.resize(std::min(std::ssize(nodes), options[count] > 0 ? options[count] : 40));
  if (!options[prompt].empty()) {
    const auto found = std::ranges::find(whole.names, options[prompt]);
    expect_input(found != whole.names.end(),
                 "--prompt {}: no node has this name; expected a name such as {}", options[prompt],
                 whole.names.front());
    nodes = {found - whole.names.begin()};
  }
  std::string text;
  for (const std::int64_t node : nodes)
    text += fmt::format("{}  {}\n", printable(whole.names[node]),
                        prediction(whole.classes, predicted[node], whole.labels[node]));
  return text;
}

std::int32_t classify(const GraphNetwork& model, const Adjacency& graph) {
  const auto N = static_cast<std::int32_t>(graph.nodes());
  const Array logits =
      model.forward(graph, Array::full({N, 1}, 1), Array::of(std::vector{0, N}, {2})).value();
  return likeliest(logits).front();
}

// Returns the edges, "0-1 1-2 0-2", and the prediction of each graph. Throws InputError for a
// prompt that is not a graph.
std::string sample_graphs(GraphTask& task, const Options& options) {
  const std::vector<std::string>& classes = task.data().classes;
  if (!options[prompt].empty()) {
    const auto said = classify(task.model(), parse_edges(options[prompt]));
    return fmt::format("{}  {}\n", options[prompt], classes[said]);
  }
  const SyntheticGraphs& drawn = *task.data().drawn;
  const std::int64_t shown = std::min(options[count] > 0 ? options[count] : 10, drawn.size());
  std::string text;
  for (std::int64_t i = 0; i < shown; ++i) {
    const auto [graph, label] = drawn.draw(i);
    text += fmt::format("{}\n    {}\n", edges_text(graph),
                        prediction(classes, classify(task.model(), graph), label));
  }
  return text;
}

Sample sample(GraphTask& task, const Options& options) {
  if (options.is_set(csv_file)) {
    expect_input(
        task.data().whole != nullptr,
        "--csv: this run classifies whole graphs; expected one that classifies nodes; leave "
        "out --csv");
    for (const KeyInfo* other :
         {static_cast<const KeyInfo*>(&prompt), static_cast<const KeyInfo*>(&count)})
      expect_input(!options.is_set(*other), "--{0}: not used with --csv; leave out --{0}",
                   other->name);
    return {.text = predictions_csv(task), .file = options[csv_file]};
  }
  return {.text = task.data().whole ? sample_nodes(task, options) : sample_graphs(task, options)};
}

constexpr std::int64_t most_shown_nodes = 3000, most_edges = 50'000;
constexpr std::size_t most_graphs = 12;

// Adds the edges between different chosen nodes, each once and at most 50,000, by the indices of
// these nodes among the chosen ones. If there are weights (E) of the graph's edges, adds the larger
// weight of both directions.
void add_edges(PlacedGraph& placed, const Adjacency& graph,
               const std::vector<std::int32_t>& number_of, std::span<const float> weights) {
  std::map<Edge, float> kept;
  const std::vector<Edge> all = graph.list();
  for (std::size_t e = 0; e < all.size(); ++e) {
    const std::int32_t one = number_of[all[e].from], other = number_of[all[e].to];
    if (one < 0 || other < 0 || one == other) continue;
    float& weight = kept[{std::min(one, other), std::max(one, other)}];
    if (!weights.empty()) weight = std::max(weight, weights[e]);
  }
  for (const auto& [edge, weight] : kept) {
    if (std::ssize(placed.edges) == most_edges) return;
    placed.edges.push_back(edge);
    if (!weights.empty()) placed.weights.push_back(weight);
  }
}

// Returns up to 3,000 nodes, those with the most neighbors, in ascending order.
std::vector<std::int64_t> shown_nodes(const Adjacency& graph) {
  std::vector<std::int64_t> nodes(graph.nodes());
  std::iota(nodes.begin(), nodes.end(), 0);
  if (graph.nodes() <= most_shown_nodes) return nodes;
  const auto offsets = graph.incoming().offsets.values<std::int32_t>();
  std::ranges::stable_sort(nodes, std::greater(),
                           [&](std::int64_t v) { return offsets[v + 1] - offsets[v]; });
  nodes.resize(most_shown_nodes);
  std::ranges::sort(nodes);
  return nodes;
}

// Returns the weights (E) of the first layer, averaged over its heads; nothing unless the layer is
// an attention layer.
std::vector<float> attention_of(const GraphNetwork& model, const Adjacency& graph,
                                const NodeFeatures& x) {
  const Tensor weights = model.layers.front()->weights(graph, x);  // (E, H), or empty
  if (weights.value().empty()) return {};
  const Array means = mean(weights, {1}).value();  // (E)
  const auto values = means.values<float>();
  return {values.begin(), values.end()};
}

template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<std::int64_t>& nodes) {
  std::vector<T> some;
  for (const std::int64_t node : nodes) some.push_back(all[node]);
  return some;
}

PlacedGraph placed_nodes(GraphTask& task) {
  const NodeGraph& whole = *task.data().whole;
  const Batch batch = task.data().validation->batch({});
  const NodeFeatures x(batch.inputs, batch.part<GraphPart>().features);
  const std::vector<std::int64_t> nodes = shown_nodes(whole.graph);
  std::vector<std::int32_t> number_of(whole.graph.nodes(), -1);
  for (std::size_t i = 0; i < nodes.size(); ++i) number_of[nodes[i]] = static_cast<std::int32_t>(i);
  PlacedGraph placed{
      .title = std::ssize(nodes) == whole.graph.nodes()
                   ? counted(std::ssize(nodes), "node")
                   : fmt::format("{} of {} nodes, those with the most neighbors", nodes.size(),
                                 whole.graph.nodes()),
      .names = chosen(whole.names, nodes),
      .truth = chosen(whole.labels, nodes),
      .predicted = chosen(likeliest(task.model().forward(whole.graph, x, {}).value()), nodes),
      .split = chosen(splits_of(whole), nodes)};
  add_edges(placed, whole.graph, number_of, attention_of(task.model(), whole.graph, x));
  placed.places = lay_out(std::ssize(nodes), placed.edges);
  return placed;
}

PlacedGraph placed_graph(GraphTask& task, std::int64_t index) {
  const auto [graph, label] = task.data().drawn->draw(index);
  const auto N = static_cast<std::int32_t>(graph.nodes());
  const Array x = Array::full({N, 1}, 1), ends = Array::of(std::vector{0, N}, {2});
  const std::vector<std::string>& classes = task.data().classes;
  const std::string& predicted =
      classes[likeliest(task.model().forward(graph, x, ends).value()).front()];
  PlacedGraph placed{.title = fmt::format("validation graph {}: {}{}", index, predicted,
                                          predicted == classes[label]
                                              ? ", right"
                                              : ", wrong: target " + classes[label])};
  std::vector<std::int32_t> number_of(N);
  std::iota(number_of.begin(), number_of.end(), 0);
  add_edges(placed, graph, number_of, attention_of(task.model(), graph, x));
  placed.places = lay_out(N, placed.edges);
  return placed;
}

// Returns a table of the 10 most confident errors, or of fewer. The predictions must be sorted by
// sort_errors_first().
TablePanel confident_errors(const ClassPredictions& errors_first, const NodeGraph& whole) {
  constexpr std::size_t most = 10;
  TablePanel panel{.title = "Most confident errors",
                   .caption =
                       "Nodes that the model was not trained on, by the probability of the "
                       "wrong prediction.",
                   .rows = {{"node", "Prediction", "probability", "Target"}}};
  for (const auto& [node, predicted, target, probability] : errors_first)
    if (predicted != target && panel.rows.size() <= most)
      panel.rows.push_back({whole.names[node], whole.classes[predicted],
                            fmt::format("{:.2f}", probability), whole.classes[target]});
  return panel;
}

}  // namespace

// Predicts all nodes of a graph in the order of nodes.csv.
Predictor graph_predictor(GraphTask& task) {
  const GraphData& data = task.data();
  expect_input(data.table.has_value(),
               "this run's graph is not in tables; predict needs nodes.csv and edges.csv");
  auto all = class_cells(node_logits(task), data.classes, 0);
  for (std::size_t node = 0; node < data.unusual.size(); ++node)
    all[node].cells.back() = data.unusual[node];
  return {.input = *data.table,
          .columns = class_columns(data.classes, 0),
          .predict = in_turn(std::move(all))};
}

Inspector<Sample> graph_samples() { return {{prompt, count, csv_file}, &sample}; }

// Returns panels of the nodes and the most confident errors, or of graphs with these errors first,
// and the confusion matrix of the test split, or of the validation split if there is none. Throws
// InputError if a logit is not finite.
ReportPanels graph_panels(GraphTask& task) {
  const GraphData& data = task.data();
  ClassPredictions all =
      class_predictions(data.test ? *data.test : *data.validation, data.whole ? 10'000 : 256,
                        [&](const Batch& batch) {
                          const auto& [graph, first_nodes, features] = batch.part<GraphPart>();
                          const NodeFeatures x(batch.inputs, features);
                          return task.model().forward(graph, x, first_nodes).value();
                        });
  const TablePanel matrix = confusion_matrix(all, data.classes);
  sort_errors_first(all);
  PlacedGraphs shown{.class_names = data.classes};
  if (data.whole) {
    shown.graphs.push_back(placed_nodes(task));
    return {shown, matrix, confident_errors(all, *data.whole)};
  }
  all.resize(std::min(most_graphs, all.size()));
  for (const ClassPrediction& one : all) shown.graphs.push_back(placed_graph(task, one.example));
  return {shown, matrix};
}

onnx::Models graph_network_graphs(GraphTask& task) {
  const bool of_graphs = task.model().pooling.has_value();
  auto graph = std::make_shared<onnx::Graph>(
      "model", of_graphs ? "The classes of graphs." : "The classes of a graph's nodes.");
  onnx::DenseGraphs graphs{
      .features = graph->input({.name = "features",
                                .shape = {"batch", "nodes", task.data().inputs},
                                .help = "of the nodes; zeros where a graph has fewer"}),
      .adjacency =
          graph->input({.name = "adjacency",
                        .shape = {"batch", "nodes", "nodes"},
                        .help = "1 where an edge leads to the row's node from the column's, "
                                "else 0"})};
  if (of_graphs)
    graphs.node_mask = graph->input({.name = "node_mask",
                                     .type = onnx::Type::boolean,
                                     .shape = {"batch", "nodes"},
                                     .help = "true for each node that a graph has"});
  const std::int64_t classes = std::ssize(task.data().classes);
  graph->output({.name = "logits",
                 .shape = of_graphs ? std::vector<onnx::Dimension>{"batch", classes}
                                    : std::vector<onnx::Dimension>{"batch", "nodes", classes},
                 .help = "of the classes; their softmax is the class's distribution"},
                onnx::forward(task.model(), graphs));
  graph->note("class_names", JsonValue(task.data().classes).dump());
  return {graph};
}

}  // namespace tapestry
