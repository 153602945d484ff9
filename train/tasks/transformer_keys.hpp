#pragma once

#include "layers/models/encoder_decoder.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// The keys of transformers that tasks read.
enum class RotaryScalingKind { none, llama3 };
enum class AttentionBias { same, all, inputs, none };
enum class AttentionKind { softmax, random_features };

namespace key {

inline const Key<std::int64_t> layers{
    "model.layers",
    4,
    "number of transformer blocks, or of recurrent layers",
    {.low = 1,
     .high = 1000,
     .also_called = {"num_layers", "n_layer", "num_hidden_layers", "depth"}}};
inline const Choice<Activation> activation{"model.activation",
                                           Activation::gelu,
                                           "activation of the hidden layers",
                                           {{"relu", Activation::relu},
                                            {"gelu", Activation::gelu},
                                            {"gelu_tanh", Activation::gelu_tanh},
                                            {"silu", Activation::silu}}};
inline const Key<std::int64_t> heads{
    "model.heads",
    4,
    "number of attention heads; must divide model.width",
    {.low = 1,
     .high = 1024,
     .also_called = {"num_heads", "n_head", "num_attention_heads", "nhead"}}};
inline const Key<std::int64_t> head_width{"model.head_width",
                                          0,
                                          "width of a head; 0: model.width / model.heads",
                                          {.low = 0, .high = 65536}};
inline const Key<std::int64_t> width{
    "model.width",
    128,
    "width of the residual stream",
    {.low = 1,
     .high = 65536,
     .also_called = {"hidden_size", "d_model", "n_embd", "dim", "embed_dim"}}};
inline const Key<std::int64_t> feed_forward{
    "model.feed_forward",
    0,
    "hidden width of the feed-forward layer; 0: 4 · model.width",
    {.low = 0,
     .high = 262144,
     .also_called = {"intermediate_size", "dim_feedforward", "d_ff", "n_inner"}}};
inline const Key<bool> gated{"model.gated", false,
                             "multiply the feed-forward layer's activation by a second projection"};
inline const Key<double> dropout{
    "model.dropout", 0, "dropout of embeddings and residual branches", {.low = 0, .high = 0.99}};
inline const Choice<Positions> positions{"model.positions",
                                         Positions::learned,
                                         "positional encoding",
                                         {{"learned", Positions::learned},
                                          {"sinusoidal", Positions::sinusoidal},
                                          {"rotary", Positions::rotary},
                                          {"none", Positions::none}}};
inline const Condition turned = positions.is(Positions::rotary);
inline const Choice<RotaryPairs> rotary_pairs{
    "model.rotary_pairs",
    RotaryPairs::neighbors,
    "dimensions of a head that rotate together: 2k and 2k + 1 (neighbors), or k and k + D/2 as in "
    "Llama (halves)",
    {{"neighbors", RotaryPairs::neighbors},
     {"halves", RotaryPairs::halves},
     {"neighbours", RotaryPairs::neighbors}},
    {turned}};
inline const Key<double> rotary_base{"model.rotary_base",
                                     10000,
                                     "base of the rotary wavelengths",
                                     {.low = 1, .high = 1e12, .used_if = {turned}}};
inline const Choice<RotaryScalingKind> rotary_scaling{
    "model.rotary_scaling",
    RotaryScalingKind::none,
    "scaling of rotary wavelengths for a context longer than that of the first training",
    {{"none", RotaryScalingKind::none}, {"llama3", RotaryScalingKind::llama3}},
    {turned}};
inline const Condition slowed = rotary_scaling.is(RotaryScalingKind::llama3);
inline const Key<double> rotary_factor{"model.rotary_factor",
                                       8,
                                       "factor of the scaling",
                                       {.low = 1, .high = 1e6, .used_if = {turned, slowed}}};
inline const Key<double> rotary_low_frequency{
    "model.rotary_low_frequency",
    1,
    "wavelengths above rotary_original_context / this value are scaled by rotary_factor",
    {.low = 0, .high = 1e6, .used_if = {turned, slowed}}};
inline const Key<double> rotary_high_frequency{
    "model.rotary_high_frequency",
    4,
    "wavelengths below rotary_original_context / this value are not scaled",
    {.low = 0, .high = 1e6, .used_if = {turned, slowed}}};
inline const Key<std::int64_t> rotary_original_context{
    "model.rotary_original_context",
    8192,
    "context length of the pretraining, in tokens",
    {.low = 1, .high = 1e12, .used_if = {turned, slowed}}};
inline const Key<bool> query_key_norm{"model.query_key_norm", false,
                                      "apply an RMS norm to each head's queries and keys"};
inline const Choice<AttentionBias> attention_bias{
    "model.attention_bias",
    AttentionBias::same,
    "biases of attention: same as model.bias, in all projections, in those to queries, keys and "
    "values (inputs), or none",
    {{"same", AttentionBias::same},
     {"all", AttentionBias::all},
     {"inputs", AttentionBias::inputs},
     {"none", AttentionBias::none}}};
inline const Choice<AttentionKind> attention{
    "model.attention",
    AttentionKind::softmax,
    "exact attention (softmax), or attention that is linear in the context",
    {{"softmax", AttentionKind::softmax}, {"random-features", AttentionKind::random_features}}};
inline const Key<std::int64_t> key_value_heads{
    "model.key_value_heads",
    0,
    "heads of keys and values (grouped-query attention); 0: model.heads",
    {.low = 0, .high = 1024, .used_if = {attention.is(AttentionKind::softmax)}}};
inline const Condition by_features = attention.is(AttentionKind::random_features);
inline const Key<std::int64_t> features{"model.features",
                                        64,
                                        "random features of a head",
                                        {.low = 1, .high = 65536, .used_if = {by_features}}};
inline const Choice<FeatureMap> feature_map{
    "model.feature_map",
    FeatureMap::trigonometric,
    "random features: sines and cosines of unit-norm queries and keys, or positive exponentials",
    {{"trigonometric", FeatureMap::trigonometric}, {"positive", FeatureMap::positive}},
    {by_features}};
inline const Key<bool> gate{"model.gate",
                            false,
                            "add a learned forget gate to causal attention by random features",
                            {.used_if = {by_features}}};
inline const Key<std::int64_t> window{
    "model.window",
    0,
    "tokens that a token attends to, including itself; 0: all",
    {.low = 0, .used_if = {attention.is(AttentionKind::softmax)}}};
inline const Choice<NormPlacement> norm{
    "model.norm",
    NormPlacement::pre,
    "place of the norm: before or after each residual branch",
    {{"pre", NormPlacement::pre}, {"post", NormPlacement::post}}};
inline const Choice<NormKind> norm_kind{"model.norm_kind",
                                        NormKind::layer,
                                        "layer norm, or RMS norm",
                                        {{"layer", NormKind::layer}, {"rms", NormKind::rms}}};
inline const Key<double> norm_epsilon{"model.norm_epsilon",
                                      1e-5,
                                      "epsilon of the norms, added to the mean square",
                                      {.low = 1e-12, .high = 1}};
inline const Key<bool> bias{"model.bias", true, "use biases in the projections"};
inline const Key<bool> tied_embeddings{"model.tied_embeddings", true,
                                       "use the token embedding as the output projection"};
inline const Key<std::int64_t> decoder_layers{"model.decoder_layers",
                                              0,
                                              "the decoder's blocks; 0: as many as the encoder's",
                                              {.low = 0, .high = 1000}};

}  // namespace key

std::vector<KeyInfo> block_keys();  // returns the number of layers, their blocks, and positions
std::vector<KeyInfo>
transformer_keys();  // returns block_keys(), kinds of attention and tied_embeddings
// Returns transformer_keys(), and those of the shapes of heads and the kinds of rotation.
std::vector<KeyInfo> decoder_only_keys();

// Return the options of these keys. Throw InputError if the number of heads does not divide the
// width or is not a multiple of the key and value heads, if the width of a head is odd and
// positions are rotary, or if the low rotary frequency is not below the high one. Embeddings are
// tied for a task without key::tied_embeddings.
TransformerBlockOptions block_options(const Config& config);
TransformerOptions transformer_options(const Config& config, std::int64_t vocabulary,
                                       std::int64_t context);

// Returns the options, including key::decoder_layers. Both languages share one vocabulary and one
// embedding. Throws InputError as block_options() does, or if model.gate is true.
EncoderDecoderOptions encoder_decoder_options(const Config& config, std::int64_t vocabulary,
                                              std::int64_t context);

// Returns the keys of a recurrent network, all of which a transformer has as well.
std::vector<KeyInfo> recurrent_keys();
RecurrentNetworkOptions recurrent_options(const Config& config, std::int64_t vocabulary);

}  // namespace tapestry
