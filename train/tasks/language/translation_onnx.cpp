#include <fmt/format.h>

#include <array>

#include "data/json.hpp"
#include "data/text/tokenizer.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/tasks/language/translation.hpp"

namespace tapestry {
namespace {

using onnx::Graph, onnx::Type, onnx::Value;

Value source_input(Graph& graph, const EncoderDecoderOptions& options) {
  return graph.input({.name = "source",
                      .type = Type::int64,
                      .shape = {"batch", "source_time"},
                      .help = fmt::format("tokens, at most {} in a row; {} fills shorter rows up",
                                          options.source_context, pad_token)});
}

std::shared_ptr<Graph> encoder_graph(const EncoderDecoder& model) {
  auto graph = std::make_shared<Graph>("encoder", "Reads a source, once for all of its target.");
  const Value source = source_input(*graph, model.options);
  graph->output({.name = "encoded",
                 .shape = {"batch", "source_time", model.options.block.width},
                 .help = "what the decoder reads beside the source"},
                onnx::encode(model, source, onnx::padding_of(source, pad_token)));
  return graph;
}

std::shared_ptr<Graph> decoder_graph(const EncoderDecoder& model) {
  auto graph = std::make_shared<Graph>("decoder",
                                       "What comes after each token of a target, given a source.");
  const Value target = graph->input(
      {.name = "target",
       .type = Type::int64,
       .shape = {"batch", "time"},
       .help = fmt::format("tokens, at most {} in a row; {} begins a target, {} ends it",
                           model.options.target_context, bos_token, eos_token)});
  const Value encoded = graph->input({.name = "encoded",
                                      .shape = {"batch", "source_time", model.options.block.width},
                                      .help = "what the encoder made of the source"});
  const Value source = source_input(*graph, model.options);
  graph->output({.name = "logits",
                 .shape = {"batch", "time", model.options.target_vocabulary},
                 .help = "of the next token after each; their softmax is its distribution"},
                onnx::decode(model, target, encoded, onnx::padding_of(source, pad_token)));
  return graph;
}

// What each token stands for, where no tokenizer says it.
std::string token_texts(const ParallelCorpus& corpus) {
  JsonValue texts = special_tokens;
  for (std::int32_t token = special_tokens.size(); token < corpus.vocabulary; ++token)
    texts.push_back(corpus.decode(std::array{token}));
  return texts.dump();
}

}  // namespace

onnx::Models translation_graphs(Translation& task) {
  onnx::Models models = {encoder_graph(task.model()), decoder_graph(task.model())};
  if (!task.metadata().contains("tokenizer"))
    for (const std::shared_ptr<Graph>& graph : models)
      graph->note("vocabulary", token_texts(task.corpus()));
  return models;
}

}  // namespace tapestry
