#pragma once

#include <fmt/format.h>

#include <functional>

#include "layers/models/transformer.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/report_panels.hpp"

// Functions of the inspectors of decoder-only models: language models and toy sequences.
namespace tapestry {

// Returns the attention of the model for the tokens, with their labels.
AttentionMaps attention_of(const Transformer& model, const std::vector<std::int32_t>& tokens,
                           const std::vector<std::string>& labels);

// Returns the attention, and the next-token probabilities after each token. `label` returns the
// label of a token. Throws InputError if a probability is not finite.
ReadExample read_by(const Transformer& model, const std::vector<std::int32_t>& tokens,
                    const std::function<std::string(std::int32_t token)>& label);

// Returns how many tokens of each example are shown on a page with `examples` examples: at least 1,
// at most 64, and no more than the context.
std::int64_t readable_tokens(const Transformer& model, std::int64_t examples);

// Returns the ONNX graph of a network that reads tokens and predicts the next one.
template <class Network>
onnx::Models next_token_models(const Network& network, std::int64_t context) {
  auto graph =
      std::make_shared<onnx::Graph>("model", "Logits of the next token after each token of a row.");
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

}  // namespace tapestry
