#include "train/tasks/transformer_keys.hpp"

#include <fmt/ranges.h>

namespace tapestry {

using namespace key;

namespace {

const Key<bool> checkpoint_activations{
    "train.checkpoint_activations",
    false,
    "save memory: keep only the blocks' inputs and compute the rest again in the backward pass",
    {.does_not_affect_result = true}};

// Returns the number of heads. Throws InputError if this number does not divide the width and the
// heads have no width of their own.
std::int64_t heads_of(const Config& config, std::int64_t own_width) {
  if (own_width == 0) config.expect_divides(heads, width);
  return config[heads];
}

// Returns the kind of positions. Throws InputError if positions are rotary and a head's width is
// odd.
Positions positions_of(const Config& config, std::int64_t own_width) {
  const std::int64_t C = config[width], H = config[heads];
  const bool turns = config[positions] == Positions::rotary;
  config.expect(!turns || own_width == 0 || own_width % 2 == 0, positions,
                "needs an even model.head_width, not {}", own_width);
  config.expect(!turns || own_width > 0 || C / H % 2 == 0, positions,
                "needs an even model.width / model.heads, not {} / {}", C, H);
  return config[positions];
}

// Returns the number of key and value heads; 0: that of the heads. Throws InputError if the number
// does not divide the number of heads.
std::int64_t key_value_heads_of(const Config& config) {
  if (config[key_value_heads] > 0) config.expect_divides(key_value_heads, heads);
  return config[key_value_heads];
}

// Returns the rotary form. Throws InputError unless the low frequency is below the high frequency.
RotaryForm rotary_form(const Config& config) {
  RotaryForm form{.pairs = config[rotary_pairs], .base = config[rotary_base]};
  if (config[rotary_scaling] == RotaryScalingKind::none) return form;
  form.scaling = {.factor = config[rotary_factor],
                  .low_frequency = config[rotary_low_frequency],
                  .high_frequency = config[rotary_high_frequency],
                  .original_context = config[rotary_original_context]};
  config.expect(form.scaling->low_frequency < form.scaling->high_frequency, rotary_high_frequency,
                "must be above model.rotary_low_frequency = {}", form.scaling->low_frequency);
  return form;
}

// Sets which projections of attention have biases.
void set_biases(const Config& config, MultiHeadOptions& attention_options) {
  switch (config[attention_bias]) {
    case AttentionBias::same:
      return;
    case AttentionBias::all:
    case AttentionBias::inputs:
    case AttentionBias::none:
      attention_options.input.bias = config[attention_bias] != AttentionBias::none;
      attention_options.output.bias = config[attention_bias] == AttentionBias::all;
      return;
  }
  throw_unhandled(attention_bias);
}

std::optional<RandomFeaturesOptions> random_features(const Config& config) {
  if (config[attention] != AttentionKind::random_features) return std::nullopt;
  return RandomFeaturesOptions{
      .features = config[features], .map = config[feature_map], .gate = config[gate]};
}

}  // namespace

std::vector<KeyInfo> block_keys() {
  return {key::layers, heads, width,     feed_forward, gated,           dropout,
          positions,   norm,  norm_kind, norm_epsilon, key::activation, bias};
}

std::vector<KeyInfo> transformer_keys() {
  std::vector<KeyInfo> all = block_keys();
  all.insert(all.end(), {attention, features, feature_map, gate, window, tied_embeddings});
  return all;
}

std::vector<KeyInfo> decoder_only_keys() {
  std::vector<KeyInfo> all = transformer_keys();
  all.insert(all.end(), {key_value_heads, head_width, query_key_norm, attention_bias, rotary_pairs,
                         rotary_base, rotary_scaling, rotary_factor, rotary_low_frequency,
                         rotary_high_frequency, rotary_original_context, checkpoint_activations});
  return all;
}

namespace {

// Returns the options of block_keys(), for heads of this width; 0: model.width / model.heads.
TransformerBlockOptions block_options(const Config& config, std::int64_t own_width) {
  const LinearOptions linear{.bias = config[bias]};
  return {.width = config[width],
          .attention = {.heads = heads_of(config, own_width),
                        .head_width = own_width,
                        .positions = positions_of(config, own_width),
                        .input = linear,
                        .output = linear},
          .feed_forward = {.hidden = config[feed_forward],
                           .activation = config[key::activation],
                           .gated = config[gated],
                           .expand = linear,
                           .contract = linear},
          .norm = config[norm],
          .norms = {.kind = config[norm_kind], .epsilon = config[norm_epsilon]},
          .dropout = config[dropout]};
}

// Returns the options of transformer_keys(), which add a window and kinds of attention.
TransformerBlockOptions block_options_with_attention(const Config& config,
                                                     std::int64_t own_width = 0) {
  TransformerBlockOptions block = block_options(config, own_width);
  block.attention.window = config[window];
  block.attention.random_features = random_features(config);
  return block;
}

// Returns the options of decoder_only_keys(), which add shapes of heads and kinds of rotation.
TransformerBlockOptions decoder_block_options(const Config& config) {
  TransformerBlockOptions block = block_options_with_attention(config, config[head_width]);
  block.attention.key_value_heads = key_value_heads_of(config);
  block.attention.rotary = rotary_form(config);
  if (config[query_key_norm]) block.attention.query_key_norm = config[norm_epsilon];
  set_biases(config, block.attention);
  return block;
}

}  // namespace

TransformerBlockOptions block_options(const Config& config) { return block_options(config, 0); }

TransformerOptions transformer_options(const Config& config, std::int64_t vocabulary,
                                       std::int64_t context) {
  return {.vocabulary = vocabulary,
          .context = context,
          .layers = config[key::layers],
          .block = decoder_block_options(config),
          .tied_embeddings = !config.has(tied_embeddings.name) || config[tied_embeddings],
          .recompute_blocks = config[checkpoint_activations]};
}

EncoderDecoderOptions encoder_decoder_options(const Config& config, std::int64_t vocabulary,
                                              std::int64_t context) {
  const std::int64_t own = config[decoder_layers];
  config.expect(!config[gate], gate,
                "is not supported by an encoder or cross-attention; set this key to false");
  return {.source_vocabulary = vocabulary,
          .target_vocabulary = vocabulary,
          .source_context = context,
          .target_context = context,
          .encoder_layers = config[layers],
          .decoder_layers = own > 0 ? own : config[layers],
          .block = block_options_with_attention(config),
          .shared_embeddings = true,
          .tied_embeddings = config[tied_embeddings]};
}

std::vector<KeyInfo> recurrent_keys() {
  return {key::layers, width, dropout, bias, tied_embeddings};
}

RecurrentNetworkOptions recurrent_options(const Config& config, std::int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .layers = config[key::layers],
          .width = config[width],
          .dropout = config[dropout],
          .bias = config[bias],
          .tied_embeddings = config[tied_embeddings]};
}

}  // namespace tapestry
