#pragma once

#include <string>
#include <variant>
#include <vector>

#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "train/config/config.hpp"
#include "train/config/settings.hpp"

// The networks that predict the next token: the key model.kind, and what both kinds compute.
namespace tapestry {

using DecoderNetwork = std::variant<Transformer, RecurrentNetwork>;
enum class DecoderKind { transformer, elman, lstm, gru };

struct DecoderSettings {
  DecoderKind kind = DecoderKind::transformer;
};

extern const SettingsOf<DecoderSettings> decoder_settings;

// Returns model.kind, and the keys of a transformer, of which a recurrent network has some.
std::vector<KeyInfo> decoder_keys();

// Returns the network that a config describes. Throws InputError as transformer_options() does.
DecoderNetwork make_decoder(const Config& config, std::int64_t vocabulary, std::int64_t context);

Module& module_of(DecoderNetwork& network);
// Returns the logits (…, V) of hidden states (…, C).
Tensor logits_of(const DecoderNetwork& network, const Tensor& hidden);
// Returns the network, or throws InputError if it is recurrent: it has no attention.
const Transformer& with_attention(const DecoderNetwork& network);

}  // namespace tapestry
