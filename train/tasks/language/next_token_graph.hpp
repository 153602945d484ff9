#pragma once

#include <fmt/format.h>

#include "train/inspect/onnx/models.hpp"

namespace tapestry {

// A network that reads tokens and expects the next one, as a model of ONNX.
template <class Network>
onnx::Models next_token_models(const Network& network, std::int64_t context) {
  auto graph = std::make_unique<onnx::Graph>("model", "What comes after each token of a row.");
  const onnx::Value tokens = graph->input({.name = "tokens",
                                           .type = onnx::Type::int64,
                                           .shape = {"batch", "time"},
                                           .help = fmt::format("at most {} in a row", context)});
  graph->output({.name = "logits",
                 .shape = {"batch", "time", network.options.vocabulary},
                 .help = "of the next token after each; their softmax is its distribution"},
                onnx::forward(network, tokens));
  onnx::Models models;
  models.push_back(std::move(graph));
  return models;
}

}  // namespace tapestry
