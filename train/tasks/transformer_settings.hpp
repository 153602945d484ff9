#pragma once

#include "layers/models/encoder_decoder.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "train/config/settings.hpp"

namespace tapestry {

enum class RotaryScalingKind { none, llama3 };
enum class AttentionBias { same, all, inputs, none };
enum class AttentionKind { softmax, random_features };

// A transformer as a config describes it.
struct TransformerSettings : TransformerOptions {
  bool bias = true;
  AttentionBias attention_bias = AttentionBias::same;
  AttentionKind attention = AttentionKind::softmax;
  RandomFeaturesOptions random_features{};
  bool query_key_norm = false;
  RotaryScalingKind rotary_scaling = RotaryScalingKind::none;
  RotaryScaling scaling{};
};

extern const SettingsOf<TransformerSettings> transformer_settings;

std::vector<KeyInfo> block_keys();  // returns the number of layers, their blocks, and positions
// Returns block_keys(), kinds of attention and model.tied_embeddings.
std::vector<KeyInfo> transformer_keys();
// Returns transformer_keys(), and those of shapes of heads, initial values and kinds of rotation.
std::vector<KeyInfo> decoder_only_keys();

// Return the options of these settings: of block_keys(), of transformer_keys() and of all. Throw
// InputError if the number of heads does not divide the width or is not a multiple of the key and
// value heads, if the width of a head is odd and positions are rotary, or if the low rotary
// frequency is not below the high one.
TransformerBlockOptions block_options(const Given<TransformerSettings>& given);
TransformerBlockOptions block_options_with_attention(const Given<TransformerSettings>& given);
TransformerOptions transformer_options(const Given<TransformerSettings>& given,
                                       std::int64_t vocabulary, std::int64_t context);

// Returns the options of recurrent layers that read this number of columns.
RecurrentStackOptions recurrent_options(const TransformerSettings& given, RecurrentKind kind,
                                        std::int64_t inputs);

std::string name_of(Activation activation);  // returns its name in a config

// Returns the setting model.activation of other networks.
template <class Options, class Member>
Bound<Options> activation_setting(Member member) {
  return {"model.activation",
          member,
          "activation of the hidden layers",
          {{"relu", Activation::relu},
           {"gelu", Activation::gelu},
           {"gelu_tanh", Activation::gelu_tanh},
           {"silu", Activation::silu}}};
}

}  // namespace tapestry
