#include "layers/graph.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "train/settings/keys.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/graphs/graph_data.hpp"

namespace tapestry {
namespace {

const Key<std::string> layer{"model.layer",
                             "convolution",
                             "how a node gathers from its neighbours",
                             {.choices = {"convolution", "attention"}}};
const Key<std::string> normalization{"model.normalization",
                                     "symmetric",
                                     "of a convolution's sum over neighbours",
                                     {.choices = {"sum", "mean", "symmetric"}}};
const Key<std::string> pooling{"model.pooling",
                               "sum",
                               "of a graph's nodes, to classify graphs",
                               {.choices = {"sum", "mean", "max"}}};
const Key<std::int64_t> layers{
    "model.layers", 2, "steps along the edges", {.low = 1, .high = 1000}};
const Key<std::int64_t> width{"model.width", 16, "columns of a node", {.low = 1, .high = 65536}};
const Key<std::int64_t> heads{
    "model.heads", 1, "of attention; must divide the width", {.low = 1, .high = 1024}};
const Key<double> dropout{"model.dropout", 0, "of what each layer reads", {.low = 0, .high = 0.99}};
const Key<double> l2{"model.l2",
                     0,
                     "λ of ½ λ ‖θ‖², added to the training loss for the first layer's weights",
                     {.low = 0, .high = 1e3}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = graph_keys();
  all.insert(all.end(), {layer, normalization, pooling, layers, width, heads, dropout, l2});
  return all;
}

Normalization normalization_of(const Config& config) {
  const std::string& name = config[normalization];
  if (name == "sum") return Normalization::sum;
  return name == "mean" ? Normalization::mean : Normalization::symmetric;
}

Pooling pooling_of(const Config& config) {
  const std::string& name = config[pooling];
  if (name == "sum") return Pooling::sum;
  return name == "mean" ? Pooling::mean : Pooling::max;
}

GraphNetwork network(const Config& config, const GraphData& data) {
  const bool attention = config[layer] == "attention";
  config.expect(!attention || config[width] % config[heads] == 0, heads,
                "must divide model.width = {}", config[width]);
  GraphNetworkOptions options{.inputs = data.inputs,
                              .classes = std::ssize(data.classes),
                              .layers = config[layers],
                              .width = config[width],
                              .attention = attention,
                              .normalization = normalization_of(config),
                              .heads = config[heads],
                              .dropout = config[dropout]};
  if (!data.whole) options.pooling = pooling_of(config);
  Random init(static_cast<std::uint64_t>(config[key::seed]), Stream::init);
  return GraphNetwork(options, init);
}

class GraphTask final : public Task {
 public:
  explicit GraphTask(const TaskSetup& setup)
      : config_(setup.config), data_(load_graphs(config_)), model_(network(config_, data_)) {
    for (Parameter* parameter : model_.parameters())
      if (parameter->role == Role::weight && parameter->name.starts_with("layers.0."))
        first_weights_.push_back(parameter);
    const auto trained = setup.metadata.find("classes");
    const std::string found = metadata().at("classes");
    expect_input(trained == setup.metadata.end() || trained->second == found,
                 "{}: classes {}; this model was trained on {}", config_[key::data_path], found,
                 trained == setup.metadata.end() ? "" : trained->second);
  }

  Module& model() override { return model_; }
  const Dataset& training_data() override { return *data_.training; }
  const Dataset& validation_data() override { return *data_.validation; }
  const Dataset* test_data() override { return data_.test.get(); }
  double units(const Batch& batch) const override { return batch.count; }
  std::map<std::string, std::string> metadata() const override {
    return {{"classes", fmt::format("{}", fmt::join(data_.classes, ", "))}};
  }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Tensor logits = model_.forward(*batch.graph, batch.inputs, batch.first_nodes,
                                         pass.training ? pass.noise : nullptr);
    const Tensor total =
        cross_entropy(logits, batch.targets, {.ignore_index = ignored_target, .mean = false});
    Averages averages{{"loss", {total.item(), batch.count}},
                      {"accuracy", accuracy(logits.value(), batch.targets)}};
    const bool penalised = pass.training && config_[l2] > 0;
    return {penalised ? total + batch.count * penalty() : total, averages};
  }

  Sample sample(const SampleOptions& options) override {
    return {data_.whole ? sample_nodes(options) : sample_graphs(options), {}};
  }

 private:
  // ½ λ ‖θ‖² over the first layer's weights, as Kipf & Welling regularise.
  Tensor penalty() {
    Tensor total = Array::full({}, 0, model_.layers[0]->bias.tensor.dtype());
    for (const Parameter* parameter : first_weights_)
      total = total + sum(parameter->tensor * parameter->tensor);
    return total * (config_[l2] / 2);
  }

  std::string verdict(std::int32_t predicted, std::int32_t label) const {
    const std::string& said = data_.classes[predicted];
    if (predicted == label) return said + "  right";
    return fmt::format("{}  wrong, expected {}", said, data_.classes[label]);
  }

  // "9  Mr. Hi  right": nodes that were not learnt from, or the one that is asked for by name.
  std::string sample_nodes(const SampleOptions& options) const {
    const NodeGraph& whole = *data_.whole;
    const Batch batch = data_.validation->batch({});
    const std::vector<std::int32_t> predicted =
        likeliest(model_.forward(*batch.graph, batch.inputs, batch.first_nodes).value());
    std::vector<std::int64_t> nodes = whole.test.empty() ? whole.validation : whole.test;
    const auto count = options.count > 0 ? options.count : 40;
    nodes.resize(std::min(std::ssize(nodes), count));
    if (!options.prompt.empty()) {
      const auto found = std::ranges::find(whole.names, options.prompt);
      expect_input(found != whole.names.end(), "--prompt {}: no node of that name", options.prompt);
      nodes = {found - whole.names.begin()};
    }
    std::string text;
    for (const std::int64_t node : nodes) {
      const auto at = node;
      text += fmt::format("{}  {}\n", whole.names[at], verdict(predicted[at], whole.labels[at]));
    }
    return text;
  }

  std::int32_t classify(const Adjacency& graph) const {
    const auto N = static_cast<std::int32_t>(graph.nodes());
    const Array logits =
        model_.forward(graph, Array::full({N, 1}, 1), Array::of(std::vector{0, N}, {2})).value();
    return likeliest(logits).front();
  }

  // "0-1 1-2 0-2" and what it was taken for.
  std::string sample_graphs(const SampleOptions& options) const {
    if (!options.prompt.empty()) {
      const auto said = classify(parse_edges(options.prompt));
      return fmt::format("{}  {}\n", options.prompt, data_.classes[said]);
    }
    const DrawnGraphs& drawn = *data_.drawn;
    const std::int64_t count = std::min(options.count > 0 ? options.count : 10, drawn.size());
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [graph, label] = drawn.draw(i);
      text += fmt::format("{}\n    {}\n", edges_text(graph), verdict(classify(graph), label));
    }
    return text;
  }

  Config config_;
  GraphData data_;
  GraphNetwork model_;
  std::vector<const Parameter*> first_weights_;  // of the first layer
};

const RegisterTask registered("graph",
                              {"a graph network, of a graph's nodes or of whole graphs", keys(),
                               [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                 return std::make_unique<GraphTask>(setup);
                               }});

}  // namespace
}  // namespace tapestry
