#include "data/json.hpp"
#include "train/tasks/language/next_token_graph.hpp"
#include "train/tasks/language/toy_sequence.hpp"

namespace tapestry {

onnx::Models toy_sequence_graphs(ToySequence& task) {
  onnx::Models models = next_token_models(task.model(), task.model().options.context);
  models.front()->note("vocabulary", JsonValue(task.training_data().vocabulary().symbols()).dump());
  return models;
}

}  // namespace tapestry
