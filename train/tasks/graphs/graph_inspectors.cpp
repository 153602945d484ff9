#include <algorithm>

#include "train/inspect/inspector.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/graphs/graph_task.hpp"
#include "train/tasks/inspector_options.hpp"

namespace tapestry {
namespace {

const Key<std::string> prompt = prompt_option("a graph's edges, or the name of a node");
const Key<std::int64_t> count = count_option(0, {prompt.is("")});

std::string verdict(const std::vector<std::string>& classes, std::int32_t predicted,
                    std::int32_t label) {
  const std::string& said = classes[predicted];
  if (predicted == label) return said + "  right";
  return fmt::format("{}  wrong, expected {}", said, classes[label]);
}

// "9  Mr. Hi  right": nodes that were not learnt from, or the one that is asked for by name.
std::string sample_nodes(GraphTask& task, const Options& options) {
  const NodeGraph& whole = *task.data().whole;
  const Batch batch = task.data().validation->batch({});
  const std::vector<std::int32_t> predicted =
      likeliest(task.model()
                    .forward(whole.graph, {batch.inputs, batch.part<GraphPart>().features}, {})
                    .value());
  std::vector<std::int64_t> nodes = whole.test.empty() ? whole.validation : whole.test;
  nodes.resize(std::min(std::ssize(nodes), options[count] > 0 ? options[count] : 40));
  if (!options[prompt].empty()) {
    const auto found = std::ranges::find(whole.names, options[prompt]);
    expect_input(found != whole.names.end(), "--prompt {}: no node of that name", options[prompt]);
    nodes = {found - whole.names.begin()};
  }
  std::string text;
  for (const std::int64_t node : nodes)
    text += fmt::format("{}  {}\n", whole.names[node],
                        verdict(whole.classes, predicted[node], whole.labels[node]));
  return text;
}

std::int32_t classify(const GraphNetwork& model, const Adjacency& graph) {
  const auto N = static_cast<std::int32_t>(graph.nodes());
  const Array logits =
      model.forward(graph, Array::full({N, 1}, 1), Array::of(std::vector{0, N}, {2})).value();
  return likeliest(logits).front();
}

// "0-1 1-2 0-2" and what it was taken for.
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
                        verdict(classes, classify(task.model(), graph), label));
  }
  return text;
}

Sample sample(GraphTask& task, const Options& options) {
  return {.text = task.data().whole ? sample_nodes(task, options) : sample_graphs(task, options)};
}

const RegisterInspector samples("graph", {prompt, count}, &sample);

}  // namespace
}  // namespace tapestry
