#include "train/tasks/transformer_keys.hpp"

#include <fmt/ranges.h>

namespace tapestry {
namespace {

const Key<std::int64_t> heads{
    "model.heads", 4, "of attention; must divide the width", {.low = 1, .high = 1024}};
const Key<std::int64_t> width{
    "model.width", 128, "columns of the residual stream", {.low = 1, .high = 65536}};
const Key<std::int64_t> feed_forward{"model.feed_forward",
                                     0,
                                     "columns between its two projections; 0: 4 · width",
                                     {.low = 0, .high = 262144}};
const Key<double> dropout{
    "model.dropout", 0, "of embeddings and residual branches", {.low = 0, .high = 0.99}};
const Choice<Positions> positions{"model.positions",
                                  Positions::learned,
                                  "positional encoding",
                                  {{"learned", Positions::learned},
                                   {"sinusoidal", Positions::sinusoidal},
                                   {"rotary", Positions::rotary},
                                   {"none", Positions::none}}};
enum class AttentionKind { softmax, random_features };
const Choice<AttentionKind> attention{
    "model.attention",
    AttentionKind::softmax,
    "exact, or linear in the context",
    {{"softmax", AttentionKind::softmax}, {"random-features", AttentionKind::random_features}}};
const Condition by_features = attention.is(AttentionKind::random_features);
const Key<std::int64_t> features{"model.features",
                                 64,
                                 "random features of a head",
                                 {.low = 1, .high = 65536, .used_if = {by_features}}};
const Choice<FeatureMap> feature_map{
    "model.feature_map",
    FeatureMap::trigonometric,
    "sines and cosines of unit-norm queries and keys, or positive exponentials",
    {{"trigonometric", FeatureMap::trigonometric}, {"positive", FeatureMap::positive}},
    {by_features}};
const Key<bool> gate{"model.gate",
                     false,
                     "causal attention by random features learns to forget",
                     {.used_if = {by_features}}};
const Key<std::int64_t> window{"model.window",
                               0,
                               "tokens that attention sees, itself the last; 0: all",
                               {.low = 0, .used_if = {attention.is(AttentionKind::softmax)}}};
const Choice<NormPlacement> norm{"model.norm",
                                 NormPlacement::pre,
                                 "layer norm before or after each branch",
                                 {{"pre", NormPlacement::pre}, {"post", NormPlacement::post}}};
const Key<bool> bias{"model.bias", true, "biases in the projections"};
const Key<bool> tied_embeddings{"model.tied_embeddings", true, "read out with the token embedding"};
const Key<bool> checkpoint_activations{
    "train.checkpoint_activations",
    false,
    "keep only the blocks' inputs and compute the rest again in the backward pass, to save memory",
    {.free_on_resume = true}};

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= n; ++i)
    if (n % i == 0) found.push_back(i);
  return found;
}

// Fails where the heads do not divide the width.
std::int64_t heads_of(const Config& config) {
  const std::int64_t C = config[width], H = config[heads];
  config.expect(C % H == 0, heads, "must divide model.width = {}: one of {}", C,
                fmt::join(divisors(C), ", "));
  return H;
}

// Fails where rotary positions meet heads of an odd width.
Positions positions_of(const Config& config) {
  const std::int64_t C = config[width], H = config[heads];
  config.expect(config[positions] != Positions::rotary || C / H % 2 == 0, positions,
                "needs an even model.width / model.heads, not {} / {}", C, H);
  return config[positions];
}

std::optional<RandomFeaturesOptions> random_features(const Config& config) {
  if (config[attention] != AttentionKind::random_features) return std::nullopt;
  return RandomFeaturesOptions{
      .features = config[features], .map = config[feature_map], .gate = config[gate]};
}

}  // namespace

std::vector<KeyInfo> block_keys() {
  return {key::layers, heads, width, feed_forward, dropout, positions, norm, key::activation, bias};
}

std::vector<KeyInfo> transformer_keys() {
  std::vector<KeyInfo> all = block_keys();
  all.insert(all.end(), {attention, features, feature_map, gate, window, tied_embeddings});
  return all;
}

std::vector<KeyInfo> decoder_only_keys() {
  std::vector<KeyInfo> all = transformer_keys();
  all.push_back(checkpoint_activations);
  return all;
}

TransformerBlockOptions block_options(const Config& config) {
  const LinearOptions linear{.bias = config[bias]};
  return {.width = config[width],
          .attention = {.heads = heads_of(config),
                        .positions = positions_of(config),
                        .input = linear,
                        .output = linear},
          .feed_forward = {.hidden = config[feed_forward],
                           .activation = config[key::activation],
                           .expand = linear,
                           .contract = linear},
          .norm = config[norm],
          .dropout = config[dropout]};
}

namespace {

// block_options() with what transformer_keys adds to block_keys: a window and kinds of attention.
TransformerBlockOptions block_options_with_attention(const Config& config) {
  TransformerBlockOptions block = block_options(config);
  block.attention.window = config[window];
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
          .tied_embeddings = config[tied_embeddings],
          .recompute_blocks = config[checkpoint_activations]};
}

EncoderDecoderOptions encoder_decoder_options(const Config& config, std::int64_t vocabulary,
                                              std::int64_t context) {
  const std::int64_t layers = config[key::layers], decoder_layers = config[key::decoder_layers];
  config.expect(!config[gate], gate, "an encoder and cross-attention have no gate");
  return {.source_vocabulary = vocabulary,
          .target_vocabulary = vocabulary,
          .source_context = context,
          .target_context = context,
          .encoder_layers = layers,
          .decoder_layers = decoder_layers > 0 ? decoder_layers : layers,
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
