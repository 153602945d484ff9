#pragma once

#include "layers/models/encoder_decoder.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "train/settings/config.hpp"

namespace tapestry {

// The keys of transformers, for every task that trains one.
namespace key {

inline const Key<std::int64_t> layers{
    "model.layers", 4, "transformer blocks", {.low = 1, .high = 1000}};
inline const Key<std::int64_t> heads{
    "model.heads", 4, "of attention; must divide the width", {.low = 1, .high = 1024}};
inline const Key<std::int64_t> width{
    "model.width", 128, "columns of the residual stream", {.low = 1, .high = 65536}};
inline const Key<std::int64_t> feed_forward{"model.feed_forward",
                                            0,
                                            "columns between its two projections; 0: 4 · width",
                                            {.low = 0, .high = 262144}};
inline const Key<double> dropout{
    "model.dropout", 0, "of embeddings and residual branches", {.low = 0, .high = 0.99}};
inline const Choice<Positions> positions{"model.positions",
                                         Positions::learned,
                                         "positional encoding",
                                         {{"learned", Positions::learned},
                                          {"sinusoidal", Positions::sinusoidal},
                                          {"rotary", Positions::rotary},
                                          {"none", Positions::none}}};
enum class AttentionKind { softmax, random_features };
inline const Choice<AttentionKind> attention{
    "model.attention",
    AttentionKind::softmax,
    "exact, or linear in the context",
    {{"softmax", AttentionKind::softmax}, {"random-features", AttentionKind::random_features}}};
inline const Key<std::int64_t> features{
    "model.features", 64, "random features of a head", {.low = 1, .high = 65536}};
inline const Choice<FeatureMap> feature_map{
    "model.feature_map",
    FeatureMap::trigonometric,
    "sines and cosines of unit-norm queries and keys, or positive exponentials",
    {{"trigonometric", FeatureMap::trigonometric}, {"positive", FeatureMap::positive}}};
inline const Key<bool> gate{"model.gate", false,
                            "causal attention by random features learns to forget"};
inline const Key<std::int64_t> window{
    "model.window", 0, "tokens that attention sees, itself the last; 0: all", {.low = 0}};
inline const Choice<NormPlacement> norm{
    "model.norm",
    NormPlacement::pre,
    "layer norm before or after each branch",
    {{"pre", NormPlacement::pre}, {"post", NormPlacement::post}}};
inline const Choice<Activation> activation{
    "model.activation",
    Activation::gelu,
    "of the hidden layers",
    {{"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}}};
inline const Key<bool> bias{"model.bias", true, "biases in the projections"};
inline const Key<bool> tied_embeddings{"model.tied_embeddings", true,
                                       "read out with the token embedding"};
inline const Key<std::int64_t> decoder_layers{"model.decoder_layers",
                                              0,
                                              "blocks of the decoder; 0: as many as the encoder's",
                                              {.low = 0, .high = 1000}};
inline const Key<bool> checkpoint_activations{
    "train.checkpoint_activations",
    false,
    "keep only the blocks' inputs and compute the rest again in the backward pass, to save memory",
    {.free_on_resume = true}};

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

// Those of the keys that a recurrent network has: layers, width, dropout, bias, tied_embeddings.
RecurrentNetworkOptions recurrent_options(const Config& config, std::int64_t vocabulary);

}  // namespace tapestry
