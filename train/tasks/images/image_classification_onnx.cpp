#include "data/json.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/tasks/images/image_classification.hpp"

namespace tapestry {

onnx::Models image_classification_graphs(ImageClassification& task) {
  const VisionTransformerOptions& options = task.model().options;
  auto graph = std::make_shared<onnx::Graph>("model", "What images show.");
  const onnx::Value images = graph->input({.name = "images",
                                           .shape = {"batch", options.height, options.width},
                                           .help = "grey, from 0, black, to 1, white"});
  const onnx::Value flat = onnx::reshape(images, {0, options.height * options.width});
  graph->output({.name = "logits",
                 .shape = {"batch", options.classes},
                 .help = "of the classes; their softmax is the class's distribution"},
                onnx::forward(task.model(), flat));
  graph->note("class_names", JsonValue(task.data().class_names()).dump());
  return {graph};
}

}  // namespace tapestry
