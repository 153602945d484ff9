#include "train/tasks/language/language_model.hpp"
#include "train/tasks/language/next_token_graph.hpp"

namespace tapestry {

onnx::Models language_model_graphs(LanguageModel& task) {
  return std::visit([&](const auto& network) { return next_token_models(network, task.context()); },
                    task.network());
}

}  // namespace tapestry
