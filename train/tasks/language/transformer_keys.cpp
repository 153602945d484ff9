#include "train/tasks/language/transformer_keys.hpp"

#include <fmt/ranges.h>

namespace tapestry {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= n; ++i)
    if (n % i == 0) found.push_back(i);
  return found;
}

// Fails where the heads do not divide the width.
std::int64_t heads_of(const Config& config) {
  const std::int64_t width = config[key::width], heads = config[key::heads];
  config.expect(width % heads == 0, key::heads, "must divide model.width = {}: one of {}", width,
                fmt::join(divisors(width), ", "));
  return heads;
}

// Fails where rotary positions meet heads of an odd width.
Positions positions_of(const Config& config) {
  const std::int64_t width = config[key::width], heads = config[key::heads];
  const Positions positions = config[key::positions];
  config.expect(positions != Positions::rotary || width / heads % 2 == 0, key::positions,
                "needs an even model.width / model.heads, not {} / {}", width, heads);
  return positions;
}

std::optional<RandomFeaturesOptions> random_features(const Config& config) {
  const bool wanted = config[key::attention] == key::AttentionKind::random_features;
  config.expect(wanted || !config[key::gate], key::gate,
                "needs model.attention = \"random-features\"");
  if (!wanted) return std::nullopt;
  config.expect(config[key::window] == 0, key::window, "random-feature attention has no window");
  return RandomFeaturesOptions{.features = config[key::features],
                               .map = config[key::feature_map],
                               .gate = config[key::gate]};
}

}  // namespace

std::vector<KeyInfo> block_keys() {
  return {key::layers,    key::heads, key::width,      key::feed_forward, key::dropout,
          key::positions, key::norm,  key::activation, key::bias};
}

std::vector<KeyInfo> transformer_keys() {
  std::vector<KeyInfo> all = block_keys();
  all.insert(all.end(), {key::attention, key::features, key::feature_map, key::gate, key::window,
                         key::tied_embeddings});
  return all;
}

std::vector<KeyInfo> decoder_only_keys() {
  std::vector<KeyInfo> all = transformer_keys();
  all.push_back(key::checkpoint_activations);
  return all;
}

TransformerBlockOptions block_options(const Config& config) {
  const LinearOptions linear{.bias = config[key::bias]};
  return {.width = config[key::width],
          .attention = {.heads = heads_of(config),
                        .positions = positions_of(config),
                        .input = linear,
                        .output = linear},
          .feed_forward = {.hidden = config[key::feed_forward],
                           .activation = config[key::activation],
                           .expand = linear,
                           .contract = linear},
          .norm = config[key::norm],
          .dropout = config[key::dropout]};
}

namespace {

// block_options() with what transformer_keys adds to block_keys: a window and kinds of attention.
TransformerBlockOptions block_options_with_attention(const Config& config) {
  TransformerBlockOptions block = block_options(config);
  block.attention.window = config[key::window];
  block.attention.random_features = random_features(config);
  return block;
}

}  // namespace

TransformerOptions transformer_options(const Config& config, std::int64_t vocabulary,
                                       std::int64_t context) {
  return {.vocabulary = vocabulary,
          .context = context,
          .layers = config[key::layers],
          .block = block_options_with_attention(config),
          .tied_embeddings = config[key::tied_embeddings],
          .recompute_blocks = config[key::checkpoint_activations]};
}

EncoderDecoderOptions encoder_decoder_options(const Config& config, std::int64_t vocabulary,
                                              std::int64_t context) {
  const std::int64_t layers = config[key::layers], decoder_layers = config[key::decoder_layers];
  config.expect(!config[key::gate], key::gate, "an encoder and cross-attention have no gate");
  return {.source_vocabulary = vocabulary,
          .target_vocabulary = vocabulary,
          .source_context = context,
          .target_context = context,
          .encoder_layers = layers,
          .decoder_layers = decoder_layers > 0 ? decoder_layers : layers,
          .block = block_options_with_attention(config),
          .shared_embeddings = true,
          .tied_embeddings = config[key::tied_embeddings]};
}

RecurrentNetworkOptions recurrent_options(const Config& config, std::int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .layers = config[key::layers],
          .width = config[key::width],
          .dropout = config[key::dropout],
          .bias = config[key::bias],
          .tied_embeddings = config[key::tied_embeddings]};
}

}  // namespace tapestry
