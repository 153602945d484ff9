#include "train/inspect/onnx/models.hpp"
#include "train/tasks/memory/recall.hpp"

namespace tapestry {

onnx::Models recall_graphs(RecallTask& task) {
  auto graph = std::make_shared<onnx::Graph>("model", "The value of the key that is asked for.");
  const onnx::Value symbols =
      graph->input({.name = "symbols",
                    .type = onnx::Type::int64,
                    .shape = {"batch", "items", std::int64_t{2}},
                    .help = "what each item is about and what it says; the last one asks"});
  graph->output({.name = "logits",
                 .shape = {"batch", task.model().readout.layers.back().weight.tensor.dim(0)},
                 .help = "of the values; their softmax is the answer's distribution"},
                onnx::forward(task.model(), symbols));
  return {graph};
}

}  // namespace tapestry
