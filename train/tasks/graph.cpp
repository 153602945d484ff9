#include "layers/graph.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "data/drawn_graphs.hpp"
#include "data/node_graph.hpp"
#include "train/keys.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {

const Key<std::string> kind{"data.kind",
                            "drawn",
                            "graphs to classify, or one graph's nodes: a club's, or cited papers",
                            {.choices = {"drawn", "karate", "citations"}}};
const Key<std::int64_t> examples{
    "data.examples", 100'000, "graphs to train on", {.low = 1, .high = 1e9}};
const Key<std::int64_t> held_back{"data.held_back",
                                  1000,
                                  "graphs to validate on, unlike any trained on",
                                  {.low = 1, .high = 1e6}};
const Key<std::int64_t> least_nodes{
    "data.least_nodes", 12, "of a drawn graph", {.low = 12, .high = 1000}};
const Key<std::int64_t> most_nodes{
    "data.most_nodes", 24, "of a drawn graph", {.low = 12, .high = 1000}};
const Key<std::vector<std::int64_t>> labelled{
    "data.labelled", {1, 34}, "members of the club whose side is known", {.low = 1, .high = 34}};
const Key<std::int64_t> training_nodes{
    "data.training_nodes", 140, "the first lines of the content file", {.low = 1, .high = 1e9}};
const Key<std::int64_t> validation_nodes{
    "data.validation_nodes", 500, "the lines after these", {.low = 1, .high = 1e9}};
const Key<std::int64_t> test_nodes{
    "data.test_nodes", 1000, "the last lines", {.low = 1, .high = 1e9}};

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
  return {kind,
          key::data_source,
          examples,
          held_back,
          least_nodes,
          most_nodes,
          labelled,
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

// What is to be learnt: nodes of one graph, or graphs.
struct Corpus {
  std::int64_t inputs = 0;
  std::vector<std::string> classes{};
  std::unique_ptr<Dataset> training{}, validation{};
  std::shared_ptr<const NodeGraph> whole{};  // of nodes, else null
  const DrawnGraphs* drawn = nullptr;        // of graphs: the validation data
};

Corpus of_nodes(NodeGraph graph) {
  const auto whole = std::make_shared<const NodeGraph>(std::move(graph));
  return {.inputs = whole->features.dim(1),
          .classes = whole->classes,
          .training = std::make_unique<NodeDataset>(whole, whole->training),
          .validation = std::make_unique<NodeDataset>(whole, whole->validation),
          .whole = whole};
}

Corpus of_graphs(const Config& config) {
  const auto part = [&](Split split) {
    return std::make_unique<DrawnGraphs>(
        DrawnGraphOptions{.least_nodes = config[least_nodes],
                          .most_nodes = config[most_nodes],
                          .examples = config[split == Split::train ? examples : held_back],
                          .seed = static_cast<std::uint64_t>(config[key::seed]),
                          .split = split});
  };
  Corpus corpus{.inputs = 1, .classes = DrawnGraphs::classes(), .training = part(Split::train)};
  auto validation = part(Split::held_back);
  corpus.drawn = validation.get();
  corpus.validation = std::move(validation);
  return corpus;
}

Corpus load(const Config& config) {
  if (config[kind] == "drawn") return of_graphs(config);
  if (config[kind] == "karate") return of_nodes(karate_club(config[labelled]));
  const std::string &path = config[key::data_path], &source = config[key::data_source];
  config.expect(!path.empty(), key::data_path,
                "there are no papers; name a folder with a *.content and a *.cites file with --set "
                "data.path=FOLDER{}{}",
                source.empty() ? "" : ", such as ", source);
  return of_nodes(load_citations(path, {.training = config[training_nodes],
                                        .validation = config[validation_nodes],
                                        .test = config[test_nodes]}));
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

GraphNetwork network(const Config& config, const Corpus& corpus) {
  const bool attention = config[layer] == "attention";
  config.expect(!attention || config[width] % config[heads] == 0, heads,
                "must divide model.width = {}", config[width]);
  GraphNetworkOptions options{.inputs = corpus.inputs,
                              .classes = std::ssize(corpus.classes),
                              .layers = config[layers],
                              .width = config[width],
                              .attention = attention,
                              .normalization = normalization_of(config),
                              .heads = config[heads],
                              .dropout = config[dropout]};
  if (!corpus.whole) options.pooling = pooling_of(config);
  Random init(static_cast<std::uint64_t>(config[key::seed]), Stream::init);
  return GraphNetwork(options, init);
}

// The likeliest class of each row of logits (N, classes).
std::vector<std::int32_t> likeliest(const Array& logits) {
  const Array scores = logits.to(DType::float32);
  const auto V = static_cast<std::size_t>(scores.dim(1));
  std::vector<std::int32_t> classes;
  for (std::size_t row = 0; row < static_cast<std::size_t>(scores.dim(0)); ++row) {
    const auto values = scores.values<float>().subspan(row * V, V);
    classes.push_back(static_cast<std::int32_t>(std::ranges::max_element(values) - values.begin()));
  }
  return classes;
}

class GraphTask final : public Task {
 public:
  explicit GraphTask(const TaskSetup& setup)
      : config_(setup.config), corpus_(load(config_)), model_(network(config_, corpus_)) {
    const auto trained = setup.memory.find("classes");
    const std::string found = memory().at("classes");
    expect_input(trained == setup.memory.end() || trained->second == found,
                 "{}: classes {}; this model was trained on {}", config_[key::data_path], found,
                 trained == setup.memory.end() ? "" : trained->second);
  }

  Module& model() override { return model_; }
  const Dataset& training_data() override { return *corpus_.training; }
  const Dataset& validation_data() override { return *corpus_.validation; }
  double units(const Batch& batch) const override { return batch.count; }
  std::map<std::string, std::string> memory() const override {
    return {{"classes", fmt::format("{}", fmt::join(corpus_.classes, ", "))}};
  }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Tensor logits = model_.forward(batch.graph, batch.inputs, batch.first_nodes,
                                         pass.training ? pass.noise : nullptr);
    const Tensor total =
        cross_entropy(logits, batch.targets, {.ignore_index = ignored_target, .mean = false});
    Averages averages{{"loss", {total.item(), batch.count}}};
    const std::vector<std::int32_t> predicted = likeliest(logits.value());
    const auto targets = batch.targets.values<std::int32_t>();
    for (std::size_t i = 0; i < predicted.size(); ++i)
      if (targets[i] != ignored_target)
        averages["accuracy"] += {static_cast<double>(predicted[i] == targets[i]), 1};
    if (!pass.training && corpus_.whole) count_test_nodes(predicted, averages);
    return {pass.training ? total + batch.count * penalty() : total, averages};
  }

  Sample sample(const SampleOptions& options) override {
    return {corpus_.whole ? sample_nodes(options) : sample_graphs(options), {}};
  }

 private:
  // ½ λ ‖θ‖² over the first layer's weights, as Kipf & Welling regularise.
  Tensor penalty() {
    Tensor total = Array::full({}, 0, model_.layers[0]->bias.tensor.dtype());
    if (config_[l2] == 0) return total;
    for (const Parameter* parameter : model_.layers[0]->parameters())
      if (parameter->role == Role::weight)
        total = total + sum(parameter->tensor * parameter->tensor);
    return total * (config_[l2] / 2);
  }

  void count_test_nodes(const std::vector<std::int32_t>& predicted, Averages& averages) const {
    for (const std::int64_t node : corpus_.whole->test) {
      const auto at = static_cast<std::size_t>(node);
      averages["test_accuracy"] +=
          {static_cast<double>(predicted[at] == corpus_.whole->labels[at]), 1};
    }
  }

  std::string verdict(std::int32_t predicted, std::int32_t label) const {
    const std::string& said = corpus_.classes[static_cast<std::size_t>(predicted)];
    if (predicted == label) return said + "  right";
    return fmt::format("{}  wrong, expected {}", said,
                       corpus_.classes[static_cast<std::size_t>(label)]);
  }

  // "9  Mr. Hi  right": nodes that were not learnt from, or the one that is asked for by name.
  std::string sample_nodes(const SampleOptions& options) const {
    const NodeGraph& whole = *corpus_.whole;
    const Batch batch = corpus_.validation->batch({});
    const std::vector<std::int32_t> predicted =
        likeliest(model_.forward(batch.graph, batch.inputs, batch.first_nodes).value());
    std::vector<std::int64_t> nodes = whole.test.empty() ? whole.validation : whole.test;
    const auto count = static_cast<std::size_t>(options.count > 0 ? options.count : 40);
    nodes.resize(std::min(nodes.size(), count));
    if (!options.prompt.empty()) {
      const auto found = std::ranges::find(whole.names, options.prompt);
      expect_input(found != whole.names.end(), "--prompt {}: no node of that name", options.prompt);
      nodes = {found - whole.names.begin()};
    }
    std::string text;
    for (const std::int64_t node : nodes) {
      const auto at = static_cast<std::size_t>(node);
      text += fmt::format("{}  {}\n", whole.names[at], verdict(predicted[at], whole.labels[at]));
    }
    return text;
  }

  std::int32_t classify(const Graph& graph) const {
    const auto N = static_cast<std::int32_t>(graph.nodes());
    const Array logits =
        model_.forward(graph, Array::full({N, 1}, 1), Array::of(std::vector{0, N}, {2})).value();
    return likeliest(logits).front();
  }

  // "0-1 1-2 0-2" and what it was taken for.
  std::string sample_graphs(const SampleOptions& options) const {
    if (!options.prompt.empty()) {
      const auto said = static_cast<std::size_t>(classify(parse_edges(options.prompt)));
      return fmt::format("{}  {}\n", options.prompt, corpus_.classes[said]);
    }
    const DrawnGraphs& drawn = *corpus_.drawn;
    const std::int64_t count = std::min(options.count > 0 ? options.count : 10, drawn.size());
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [graph, label] = drawn.draw(i);
      text += fmt::format("{}\n    {}\n", edges_text(graph), verdict(classify(graph), label));
    }
    return text;
  }

  Config config_;
  Corpus corpus_;
  GraphNetwork model_;
};

const RegisterTask registered("graph",
                              {"a graph network, of a graph's nodes or of whole graphs", keys(),
                               [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                 return std::make_unique<GraphTask>(setup);
                               }});

}  // namespace
}  // namespace tapestry
