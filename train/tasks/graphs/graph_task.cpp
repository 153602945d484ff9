#include "train/tasks/graphs/graph_task.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "data/input_file.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/linear_baseline.hpp"

namespace tapestry {
namespace {

struct GraphModelSettings : GraphNetworkOptions {
  Pooling graph_pooling = Pooling::sum;
  double l2 = 0;
};

const Condition is_gat = key_is("model.layer", "gat"), is_gcnii = key_is("model.layer", "gcnii"),
                is_of_nodes = key_is("data.kind", "karate", "citations", "csv");

const SettingsOf<GraphModelSettings> graph_model_settings = [] {
  using S = GraphModelSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("model.layer", &S::layer,
          "kind of graph layer: convolution (GCN), attention by scaled products, attention by "
          "additive scores (GAT), or deep convolution with initial residual (GCNII)",
          {{"convolution", GraphLayerKind::convolution},
           {"attention", GraphLayerKind::attention},
           {"gat", GraphLayerKind::additive_attention},
           {"gcnii", GraphLayerKind::gcnii}}),
      Row("model.normalization", &S::normalization,
          "normalization of a convolution's sum over neighbors",
          {{"sum", Normalization::sum},
           {"mean", Normalization::mean},
           {"symmetric", Normalization::symmetric}},
          {.used_if = {key_is("model.layer", "convolution")}}),
      Row("model.pooling", &S::graph_pooling, "pooling of a graph's nodes",
          {{"sum", Pooling::sum}, {"mean", Pooling::mean}, {"max", Pooling::max}},
          {.used_if = {key_is("data.kind", "drawn")}}),
      Row("model.layers", &S::layers, "graph layers", {.low = 1, .high = 1000}),
      Row("model.width", &S::width, "hidden features per node", {.low = 1, .high = 65536}),
      Row("model.heads", &S::heads, "number of attention heads; must divide model.width",
          {.low = 1, .high = 1024, .used_if = {key_is("model.layer", "attention", "gat")}}),
      Row("model.output_heads", &S::output_heads,
          "attention heads of the last layer, which are averaged",
          {.low = 1, .high = 1024, .used_if = {is_gat, is_of_nodes}}),
      Row("model.attention_dropout", &S::weight_dropout, "dropout of the weights of attention",
          {.low = 0, .high = 0.99, .used_if = {is_gat}}),
      Row("model.alpha", &S::alpha, "share of the initial features in each layer of a GCNII",
          {.low = 0, .high = 1, .used_if = {is_gcnii}}),
      Row("model.lambda", &S::lambda,
          "λ of a GCNII: layer l has the share log(λ / l + 1) of its weights, not of the identity",
          {.low = 0, .high = 1.7, .used_if = {is_gcnii}}),
      Row("model.dropout", &S::dropout, "dropout of each layer's input", {.low = 0, .high = 0.99}),
      Row("model.l2", &S::l2,
          "λ of ½ λ ‖θ‖², added to the training loss for the first layer's weights; short for "
          "\"layers.0.*.weight l2=λ\" in optim.groups",
          {.low = 0, .high = 1e3})};
}();

GraphNetwork network(const Config& config, const GraphData& data) {
  const Given<GraphModelSettings> given = graph_model_settings.of(config);
  given.expect_divides("heads", "width");
  GraphNetworkOptions options = given;
  options.inputs = data.inputs;
  options.classes = std::ssize(data.classes);
  if (!data.whole) options.pooling = given.graph_pooling;
  return initialized(config, [&](Random& init) { return GraphNetwork(options, init); });
}

std::string description(const Config& config, const std::map<std::string, std::string>&) {
  const GraphLayerKind layer = graph_model_settings.of(config).layer;
  return fmt::format(
      "a graph {} network that classifies {}",
      layer == GraphLayerKind::attention || layer == GraphLayerKind::additive_attention
          ? "attention"
          : "convolutional",
      graph_settings.of(config).kind == GraphKind::drawn ? "whole graphs" : "nodes");
}

TaskSpec spec() {
  return {.name = "graph",
          .help = "a graph network that classifies nodes or whole graphs",
          .describe = description,
          .keys = joined({graph_settings.keys(), graph_model_settings.keys()}),
          .make = make_task_of<GraphTask>,
          .detect = detect_graphs,
          .recognize = recognize_graphs,
          .metrics = classification_metrics(),
          .samples = graph_samples(),
          .predictor = graph_predictor,
          .panels = graph_panels,
          .onnx = graph_network_graphs,
          .reads_whole_data = true,
          .predicts_whole_data = true};
}

const RegisterTask registered(spec);

// Returns the names in a list such as "art, maths".
std::vector<std::string> classes_in(const std::string& list) {
  const std::vector<std::string_view> names = split(list, ',');
  return {names.begin(), names.end()};
}

// Throws InputError unless the classes of the data are those of the model. The message lists them
// briefly, or names the first class that differs if this is not among those listed.
void expect_classes(const std::string& path, const std::string& found, const std::string& trained) {
  if (found == trained) return;
  const std::vector<std::string> own = classes_in(found), expected = classes_in(trained);
  const std::string own_list = list_briefly(own), expected_list = list_briefly(expected);
  expect_input(
      own_list == expected_list,
      "{}: has the classes {}, but this model was trained on {}; give the data of this model", path,
      own_list, expected_list);
  const std::size_t first = std::ranges::mismatch(own, expected).in1 - own.begin();
  const auto name = [first](const std::vector<std::string>& names) {
    return first < names.size() ? names[first] : "missing";
  };
  throw InputError(fmt::format(
      "{}: class {} of {} is {}, but this model was trained on {} classes, of which it is {}; give "
      "the data of this model",
      path, first + 1, own.size(), name(own), expected.size(), name(expected)));
}

}  // namespace

GraphTask::GraphTask(const TaskSetup& setup)
    : l2_(graph_model_settings.of(setup.config).l2),
      data_(load_graphs(setup)),
      model_(network(setup.config, data_)),
      fits_baselines_(has_own_training_data(setup) && data_.whole) {
  if (const auto trained = setup.metadata.find("classes"); trained != setup.metadata.end())
    expect_classes(setup.config[key::data_path], metadata().at("classes"), trained->second);
}

const Dataset& GraphTask::validation_data() {
  expect_input(data_.validation != nullptr,
               "no node has a label; expected some to compare the predictions with");
  return *data_.validation;
}

std::map<std::string, std::string> GraphTask::metadata() const {
  std::map<std::string, std::string> metadata = data_.metadata;
  metadata["classes"] = fmt::format("{}", fmt::join(data_.classes, ", "));
  return metadata;
}

std::vector<std::string> GraphTask::groups() const {
  if (l2_ == 0) return {};
  return {fmt::format("layers.0.*.weight l2={}", l2_)};
}

Loss GraphTask::loss(const Batch& batch, const Pass& pass) {
  const auto& [graph, first_nodes, features] = batch.part<GraphPart>();
  const Tensor logits = model_.forward(graph, {batch.inputs, features}, first_nodes,
                                       pass.training ? pass.noise : nullptr);
  return classification_loss(logits, batch, {});
}

std::vector<Baselines> GraphTask::baselines(JudgedSplits judged) {
  if (!fits_baselines_) return {};
  return linear_baselines(
      *this, judged,
      {.outputs = std::ssize(data_.classes),
       .name = "linear model on features",
       .is_whole = true,
       .encode = [](const Dataset& data, std::span<const std::int64_t> examples,
                    bool) { return data.batch(examples); },
       .measure = [](const Array& outputs,
                     const Batch& batch) { return classification_loss(outputs, batch, {}); }});
}

}  // namespace tapestry
