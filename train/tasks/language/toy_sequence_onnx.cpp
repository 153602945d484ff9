#include "data/json.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/language/next_token_graph.hpp"
#include "train/tasks/language/toy_sequence.hpp"

namespace tapestry {
namespace {

onnx::Models toy_sequence_graphs(ToySequence& task, const Options&) {
  onnx::Models models = next_token_models(task.model(), task.model().options.context);
  models.front()->note("vocabulary", JsonValue(task.training_data().vocabulary().symbols()).dump());
  return models;
}

const RegisterInspector toy_sequence_models("toy-sequence", {}, &toy_sequence_graphs);

}  // namespace
}  // namespace tapestry
