#include "train/tasks/graphs/graph_data.hpp"

#include "train/config/keys.hpp"
#include "train/config/option_keys.hpp"

namespace tapestry {
namespace {

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
  const NodeSplit split{.training = config[key::training_nodes],
                        .validation = config[key::validation_nodes],
                        .test = config[key::test_nodes]};
  return with_keys(config,
                   {{"training", key::training_nodes,
                     "set it, data.validation_nodes and data.test_nodes to fit"}},
                   [&] { return load_node_graph(path, split); });
}

GraphData of_graphs(const Config& config) {
  config.expect(config[key::least_nodes] <= config[key::most_nodes], key::most_nodes,
                "is below data.least_nodes = {}", config[key::least_nodes]);
  const auto part = [&](Split split) {
    return std::make_unique<SyntheticGraphs>(SyntheticGraphOptions{
        .least_nodes = config[key::least_nodes],
        .most_nodes = config[key::most_nodes],
        .examples =
            config[split == Split::train ? key::synthetic_graphs : key::synthetic_validation],
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

}  // namespace

std::vector<KeyInfo> graph_keys() {
  using namespace key;
  return {graph_kind, data_source, synthetic_graphs, synthetic_validation, least_nodes,
          most_nodes, labelled,    training_nodes,   validation_nodes,     test_nodes};
}

GraphData load_graphs(const Config& config) {
  switch (config[key::graph_kind]) {
    case key::GraphKind::drawn:
      key::expect_no_path(config);
      return of_graphs(config);
    case key::GraphKind::karate:
      key::expect_no_path(config);
      return of_nodes(with_keys(config, {{"labelled", key::labelled}},
                                [&] { return karate_club(config[key::labelled]); }));
    case key::GraphKind::citations:
      return of_nodes(citations(config));
  }
  throw_unhandled(key::graph_kind);
}

}  // namespace tapestry
