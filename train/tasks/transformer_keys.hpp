#pragma once

#include "layers/models/encoder_decoder.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "train/settings/config.hpp"

namespace tapestry {

// Those keys of transformers that tasks read themselves.
namespace key {

inline const Key<std::int64_t> layers{
    "model.layers", 4, "transformer blocks", {.low = 1, .high = 1000}};
inline const Choice<Activation> activation{
    "model.activation",
    Activation::gelu,
    "of the hidden layers",
    {{"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}}};
inline const Key<std::int64_t> decoder_layers{"model.decoder_layers",
                                              0,
                                              "blocks of the decoder; 0: as many as the encoder's",
                                              {.low = 0, .high = 1000}};

}  // namespace key

std::vector<KeyInfo> block_keys();         // layers, their blocks and positions
std::vector<KeyInfo> transformer_keys();   // the same, kinds of attention and tied_embeddings
std::vector<KeyInfo> decoder_only_keys();  // the same with checkpoint_activations

// All fail where the heads do not divide the width, or are of an odd one and positions rotary.
TransformerBlockOptions block_options(const Config& config);
TransformerOptions transformer_options(const Config& config, std::int64_t vocabulary,
                                       std::int64_t context);

// With key::decoder_layers. Both languages share one vocabulary and one table of embeddings.
EncoderDecoderOptions encoder_decoder_options(const Config& config, std::int64_t vocabulary,
                                              std::int64_t context);

std::vector<KeyInfo> recurrent_keys();  // those of a transformer's that a recurrent network has
RecurrentNetworkOptions recurrent_options(const Config& config, std::int64_t vocabulary);

}  // namespace tapestry
