#include <fmt/format.h>

#include "data/json.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/language/toy_sequence.hpp"

namespace tapestry {
namespace {

// Returns the model of a network that reads tokens and predicts the next one.
template <class Network>
onnx::Models next_token_models(const Network& network, std::int64_t context) {
  auto graph = std::make_shared<onnx::Graph>("model", "What comes after each token of a row.");
  const onnx::Value tokens = graph->input({.name = "tokens",
                                           .type = onnx::Type::int64,
                                           .shape = {"batch", "time"},
                                           .help = fmt::format("at most {} in a row", context)});
  graph->output({.name = "logits",
                 .shape = {"batch", "time", network.options.vocabulary},
                 .help = "of the next token after each; their softmax is its distribution"},
                onnx::forward(network, tokens));
  return {graph};
}

}  // namespace

onnx::Models language_model_graphs(LanguageModel& task) {
  return std::visit([&](const auto& network) { return next_token_models(network, task.context()); },
                    task.network());
}

onnx::Models toy_sequence_graphs(ToySequence& task) {
  onnx::Models models = next_token_models(task.model(), task.model().options.context);
  models.front()->note("vocabulary", JsonValue(task.training_data().vocabulary().symbols()).dump());
  return models;
}

}  // namespace tapestry
