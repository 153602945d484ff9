#include "train/inspect/inspector.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/language/next_token_graph.hpp"

namespace tapestry {
namespace {

onnx::Models language_model_graphs(LanguageModel& task, const Options&) {
  return std::visit([&](const auto& network) { return next_token_models(network, task.context()); },
                    task.network());
}

const RegisterInspector language_model_models("language-model", {}, &language_model_graphs);

}  // namespace
}  // namespace tapestry
