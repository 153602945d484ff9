#include "train/tasks/language/decoder_network.hpp"

#include "train/tasks/initialized.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

// Returns the layers of a recurrent network.
RecurrentKind recurrent_kind(DecoderKind kind) {
  if (kind == DecoderKind::elman) return RecurrentKind::elman;
  return kind == DecoderKind::lstm ? RecurrentKind::lstm : RecurrentKind::gru;
}

}  // namespace

const SettingsOf<DecoderSettings> decoder_settings = [] {
  return std::vector<Bound<DecoderSettings>>{{"model.kind",
                                              &DecoderSettings::kind,
                                              "kind of network",
                                              {{"transformer", DecoderKind::transformer},
                                               {"recurrent", DecoderKind::elman},
                                               {"lstm", DecoderKind::lstm},
                                               {"gru", DecoderKind::gru}}}};
}();

std::vector<KeyInfo> decoder_keys() {
  return joined({used_with(key_is("model.kind", "transformer"), decoder_only_keys(),
                           {"model.layers", "model.width", "model.dropout", "model.bias",
                            "model.tied_embeddings"}),
                 decoder_settings.keys()});
}

DecoderNetwork make_decoder(const Config& config, std::int64_t vocabulary, std::int64_t context) {
  const Given<TransformerSettings> given = transformer_settings.of(config);
  const DecoderKind kind = decoder_settings.of(config).kind;
  return initialized(config, [&](Random& init) -> DecoderNetwork {
    if (kind == DecoderKind::transformer)
      return Transformer(transformer_options(given, vocabulary, context), init);
    return RecurrentNetwork({.vocabulary = vocabulary,
                             .layers = given.layers,
                             .width = given.block.width,
                             .kind = recurrent_kind(kind),
                             .dropout = given.block.dropout,
                             .bias = given.bias,
                             .tied_embeddings = given.tied_embeddings},
                            init);
  });
}

Module& module_of(DecoderNetwork& network) {
  return std::visit([](Module& module) -> Module& { return module; }, network);
}

Tensor logits_of(const DecoderNetwork& network, const Tensor& hidden) {
  return std::visit([&](const auto& own) { return own.logits(hidden); }, network);
}

const Transformer& with_attention(const DecoderNetwork& network) {
  const auto* transformer = std::get_if<Transformer>(&network);
  expect_input(
      transformer,
      "a recurrent network has no attention to draw; give a run with model.kind = \"transformer\"");
  return *transformer;
}

}  // namespace tapestry
