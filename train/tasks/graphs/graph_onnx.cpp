#include "data/json.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/tasks/graphs/graph_task.hpp"

namespace tapestry {

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
