#include "train/tasks/graphs/graph_task.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"

namespace tapestry {
namespace {

enum class GraphKind { drawn, karate, citations };
const Choice<GraphKind> graph_kind{"data.kind",
                                   GraphKind::drawn,
                                   "synthetic graphs to classify, or a graph with nodes to "
                                   "classify: the karate-club graph or a citation data set",
                                   {{"drawn", GraphKind::drawn},
                                    {"karate", GraphKind::karate},
                                    {"citations", GraphKind::citations}}};
const Condition of_drawn = graph_kind.is(GraphKind::drawn),
                of_citations = graph_kind.is(GraphKind::citations);
const Key<std::int64_t> synthetic_graphs{
    "data.examples", 100'000, "training graphs", {.low = 1, .high = 1e9, .used_if = {of_drawn}}};
const Key<std::int64_t> synthetic_validation{
    "data.held_back",
    1000,
    "number of validation graphs, none of which is a training graph",
    {.low = 1, .high = 1e6, .used_if = {of_drawn}}};
const Key<std::int64_t> least_nodes{"data.least_nodes",
                                    12,
                                    "smallest number of nodes of a synthetic graph",
                                    {.low = 12, .high = 1000, .used_if = {of_drawn}}};
const Key<std::int64_t> most_nodes{"data.most_nodes",
                                   24,
                                   "largest number of nodes of a synthetic graph",
                                   {.low = 12, .high = 1000, .used_if = {of_drawn}}};
const Key<std::vector<std::int64_t>> labeled{"data.labeled",
                                             {1, 34},
                                             "members of the karate club whose class is known",
                                             {.low = 1,
                                              .high = 34,
                                              .used_if = {graph_kind.is(GraphKind::karate)},
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

GraphData of_nodes(NodeGraph graph) {
  const auto whole = std::make_shared<const NodeGraph>(std::move(graph));
  const auto part = [&](const std::vector<std::int64_t>& nodes) {
    return nodes.empty() ? nullptr : std::make_unique<NodeDataset>(whole, nodes);
  };
  return {.inputs = whole->features.dim(1),
          .classes = whole->classes,
          .training = part(whole->training),
          .validation = part(whole->validation),
          .test = part(whole->test),
          .whole = whole};
}

NodeGraph citations(const Config& config) {
  const std::string& path = key::required_path(
      config, "no graph", std::string(node_graph_files) + " with --set data.path=FOLDER");
  const NodeSplit split{.training = config[training_nodes],
                        .validation = config[validation_nodes],
                        .test = config[test_nodes]};
  return with_keys(
      config, {{"training", training_nodes, "lower it, data.validation_nodes or data.test_nodes"}},
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

GraphData load_graphs(const Config& config) {
  switch (config[graph_kind]) {
    case GraphKind::drawn:
      key::expect_no_path(config);
      return of_graphs(config);
    case GraphKind::karate:
      key::expect_no_path(config);
      return of_nodes(
          with_keys(config, {{"labeled", labeled}}, [&] { return karate_club(config[labeled]); }));
    case GraphKind::citations:
      return of_nodes(citations(config));
  }
  throw_unhandled(graph_kind);
}

const Choice<GraphLayerKind> layer{
    "model.layer",
    GraphLayerKind::convolution,
    "kind of graph layer",
    {{"convolution", GraphLayerKind::convolution}, {"attention", GraphLayerKind::attention}}};
const Choice<Normalization> normalization{"model.normalization",
                                          Normalization::symmetric,
                                          "normalization of a convolution's sum over neighbors",
                                          {{"sum", Normalization::sum},
                                           {"mean", Normalization::mean},
                                           {"symmetric", Normalization::symmetric}},
                                          {layer.is(GraphLayerKind::convolution)}};
const Choice<Pooling> pooling{
    "model.pooling",
    Pooling::sum,
    "pooling of a graph's nodes",
    {{"sum", Pooling::sum}, {"mean", Pooling::mean}, {"max", Pooling::max}},
    {of_drawn}};
const Key<std::int64_t> layers{"model.layers", 2, "graph layers", {.low = 1, .high = 1000}};
const Key<std::int64_t> width{
    "model.width", 16, "hidden features per node", {.low = 1, .high = 65536}};
const Key<std::int64_t> heads{
    "model.heads",
    1,
    "number of attention heads; must divide model.width",
    {.low = 1, .high = 1024, .used_if = {layer.is(GraphLayerKind::attention)}}};
const Key<double> dropout{
    "model.dropout", 0, "dropout of each layer's input", {.low = 0, .high = 0.99}};
const Key<double> l2{"model.l2",
                     0,
                     "λ of ½ λ ‖θ‖², added to the training loss for the first layer's weights",
                     {.low = 0, .high = 1e3}};

std::vector<KeyInfo> keys() {
  return {graph_kind,
          key::data_source,
          synthetic_graphs,
          synthetic_validation,
          least_nodes,
          most_nodes,
          labeled,
          training_nodes,
          validation_nodes,
          test_nodes,
          layer,
          normalization,
          pooling,
          layers,
          width,
          heads,
          dropout,
          l2};
}

GraphNetwork network(const Config& config, const GraphData& data) {
  config.expect_divides(heads, width);
  GraphNetworkOptions options{.inputs = data.inputs,
                              .classes = std::ssize(data.classes),
                              .layers = config[layers],
                              .width = config[width],
                              .layer = config[layer],
                              .normalization = config[normalization],
                              .heads = config[heads],
                              .dropout = config[dropout]};
  if (!data.whole) options.pooling = config[pooling];
  return initialized(config, [&](Random& init) { return GraphNetwork(options, init); });
}

std::string description(const Config& config, const std::map<std::string, std::string>&) {
  return fmt::format("a graph {} network that classifies {}",
                     config[layer] == GraphLayerKind::attention ? "attention" : "convolutional",
                     config[graph_kind] == GraphKind::drawn ? "whole graphs" : "nodes");
}

TaskSpec spec() {
  return {.name = "graph",
          .help = "a graph network that classifies nodes or whole graphs",
          .describe = description,
          .keys = keys(),
          .make = make_task_of<GraphTask>,
          .metrics = classification_metrics(),
          .samples = graph_samples(),
          .panels = graph_panels,
          .onnx = graph_network_graphs};
}

const RegisterTask registered(spec);

}  // namespace

GraphTask::GraphTask(const TaskSetup& setup)
    : l2_(setup.config[l2]),
      data_(load_graphs(setup.config)),
      model_(network(setup.config, data_)) {
  for (Parameter* parameter : model_.parameters())
    if (parameter->role == Role::weight && parameter->name.starts_with("layers.0."))
      first_weights_.push_back(parameter);
  const auto trained = setup.metadata.find("classes");
  const std::string found = metadata().at("classes");
  expect_input(trained == setup.metadata.end() || trained->second == found,
               "{}: has the classes {}, but this model was trained on {}; give its data",
               setup.config[key::data_path], found,
               trained == setup.metadata.end() ? "" : trained->second);
}

std::map<std::string, std::string> GraphTask::metadata() const {
  return {{"classes", fmt::format("{}", fmt::join(data_.classes, ", "))}};
}

Loss GraphTask::loss(const Batch& batch, const Pass& pass) {
  const auto& [graph, first_nodes, features] = batch.part<GraphPart>();
  const Tensor logits = model_.forward(graph, {batch.inputs, features}, first_nodes,
                                       pass.training ? pass.noise : nullptr);
  const Tensor total =
      cross_entropy(logits, batch.targets, {.ignore_index = ignored_target, .mean = false});
  MetricSums averages{{"loss", {total.item(), batch.count}},
                      {"accuracy", accuracy(logits.value(), batch.targets)}};
  const bool penalised = pass.training && l2_ > 0;
  return {penalised ? total + batch.count * penalty() : total, averages};
}

Tensor GraphTask::penalty() const {
  Tensor total = Array::full({}, 0, first_weights_.front()->tensor.dtype());
  for (const Parameter* parameter : first_weights_)
    total = total + sum(parameter->tensor * parameter->tensor);
  return total * (l2_ / 2);
}

}  // namespace tapestry
