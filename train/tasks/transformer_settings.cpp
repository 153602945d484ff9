#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

using Model = TransformerSettings;
using Row = Bound<TransformerSettings>;
using Block = TransformerBlockOptions;
using Heads = MultiHeadOptions;

const auto heads = within(&Model::block, &Block::attention);
const auto feed_forward = within(&Model::block, &Block::feed_forward);
const auto norms = within(&Model::block, &Block::norms);
const auto rotary = within(heads, &Heads::rotary);

const Condition is_rotary = key_is("model.positions", "rotary"),
                is_scaled = key_is("model.rotary_scaling", "llama3"),
                is_softmax = key_is("model.attention", "softmax"),
                is_by_features = key_is("model.attention", "random-features");

std::vector<Row> of_blocks() {
  return {
      Row("model.layers", &Model::layers, "number of transformer blocks, or of recurrent layers",
          {.low = 1,
           .high = 1000,
           .also_called = {"num_layers", "n_layer", "num_hidden_layers", "depth"}}),
      Row("model.heads", within(heads, &Heads::heads),
          "number of attention heads; must divide model.width",
          {.low = 1,
           .high = 1024,
           .also_called = {"num_heads", "n_head", "num_attention_heads", "nhead"}}),
      Row("model.width", within(&Model::block, &Block::width), "width of the residual stream",
          {.low = 1,
           .high = 65536,
           .also_called = {"hidden_size", "d_model", "n_embd", "dim", "embed_dim"}}),
      Row("model.feed_forward", within(feed_forward, &FeedForwardOptions::hidden),
          "hidden width of the feed-forward layer; 0: 4 · model.width; -1: blocks without it",
          {.low = -1,
           .high = 262144,
           .also_called = {"intermediate_size", "dim_feedforward", "d_ff", "n_inner"}}),
      Row("model.gated", within(feed_forward, &FeedForwardOptions::gated),
          "multiply the feed-forward layer's activation by a second projection"),
      Row("model.dropout", within(&Model::block, &Block::dropout),
          "dropout of embeddings and residual branches", {.low = 0, .high = 0.99}),
      Row("model.positions", within(heads, &Heads::positions), "positional encoding",
          {{"learned", Positions::learned},
           {"sinusoidal", Positions::sinusoidal},
           {"rotary", Positions::rotary},
           {"none", Positions::none}}),
      Row("model.norm", within(&Model::block, &Block::norm),
          "place of the norm: before or after each residual branch",
          {{"pre", NormPlacement::pre}, {"post", NormPlacement::post}}),
      Row("model.norm_kind", within(norms, &NormOptions::kind), "layer norm, RMS norm, or no norm",
          {{"layer", NormKind::layer}, {"rms", NormKind::rms}, {"none", NormKind::none}}),
      Row("model.norm_epsilon", within(norms, &NormOptions::epsilon),
          "epsilon of the norms, added to the mean square",
          {.low = 1e-12,
           .high = 1,
           .used_if =
               {{.key = "model.norm_kind", .values = {std::string("none")}, .excludes = true}}}),
      activation_setting<Model>(within(feed_forward, &FeedForwardOptions::activation)),
      Row("model.bias", &Model::bias, "use biases in the projections")};
}

std::vector<Row> of_attention() {
  const auto features = &Model::random_features;
  return {Row("model.attention", &Model::attention,
              "exact attention (softmax), or attention that is linear in the context",
              {{"softmax", AttentionKind::softmax},
               {"random-features", AttentionKind::random_features}}),
          Row("model.features", within(features, &RandomFeaturesOptions::features),
              "random features of a head", {.low = 1, .high = 65536, .used_if = {is_by_features}}),
          Row("model.feature_map", within(features, &RandomFeaturesOptions::map),
              "random features: sines and cosines of unit-norm queries and keys, or positive "
              "exponentials",
              {{"trigonometric", FeatureMap::trigonometric}, {"positive", FeatureMap::positive}},
              {.used_if = {is_by_features}}),
          Row("model.gate", within(features, &RandomFeaturesOptions::gate),
              "add a learned forget gate to causal attention by random features",
              {.used_if = {is_by_features}}),
          Row("model.window", within(heads, &Heads::window),
              "tokens that a token attends to, including itself; 0: all",
              {.low = 0, .used_if = {is_softmax}}),
          Row("model.tied_embeddings", &Model::tied_embeddings,
              "use the token embedding as the output projection")};
}

std::vector<Row> of_heads() {
  return {
      Row("model.key_value_heads", within(heads, &Heads::key_value_heads),
          "heads of keys and values (grouped-query attention); 0: model.heads",
          {.low = 0, .high = 1024, .used_if = {is_softmax}}),
      Row("model.head_width", within(heads, &Heads::head_width),
          "width of a head; 0: model.width / model.heads", {.low = 0, .high = 65536}),
      Row("model.query_key_norm", &Model::query_key_norm,
          "apply an RMS norm to each head's queries and keys"),
      Row("model.attention_bias", &Model::attention_bias,
          "biases of attention: same as model.bias, in all projections, in those to queries, keys "
          "and values (inputs), or none",
          {{"same", AttentionBias::same},
           {"all", AttentionBias::all},
           {"inputs", AttentionBias::inputs},
           {"none", AttentionBias::none}}),
      Row("model.initial_deviation", &Model::initial_deviation,
          "standard deviation of the initial weights and embeddings; those that end a residual "
          "branch are divided by √(2 · layers)",
          {.low = 1e-6, .high = 1, .also_called = {"initializer_range", "init_std"}})};
}

std::vector<Row> of_rotation() {
  const auto scaling = &Model::scaling;
  return {
      Row("model.rotary_pairs", within(rotary, &RotaryForm::pairs),
          "dimensions of a head that rotate together: 2k and 2k + 1 (neighbors), or k and k + D/2 "
          "as in Llama (halves)",
          {{"neighbors", RotaryPairs::neighbors},
           {"halves", RotaryPairs::halves},
           {"neighbours", RotaryPairs::neighbors}},
          {.used_if = {is_rotary}}),
      Row("model.rotary_base", within(rotary, &RotaryForm::base), "base of the rotary wavelengths",
          {.low = 1, .high = 1e12, .used_if = {is_rotary}}),
      Row("model.rotary_scaling", &Model::rotary_scaling,
          "scaling of rotary wavelengths for a context longer than that of the first training",
          {{"none", RotaryScalingKind::none}, {"llama3", RotaryScalingKind::llama3}},
          {.used_if = {is_rotary}}),
      Row("model.rotary_factor", within(scaling, &RotaryScaling::factor), "factor of the scaling",
          {.low = 1, .high = 1e6, .used_if = {is_rotary, is_scaled}}),
      Row("model.rotary_low_frequency", within(scaling, &RotaryScaling::low_frequency),
          "wavelengths above rotary_original_context / this value are scaled by rotary_factor",
          {.low = 0, .high = 1e6, .used_if = {is_rotary, is_scaled}}),
      Row("model.rotary_high_frequency", within(scaling, &RotaryScaling::high_frequency),
          "wavelengths below rotary_original_context / this value are not scaled",
          {.low = 0, .high = 1e6, .used_if = {is_rotary, is_scaled}}),
      Row("model.rotary_original_context", within(scaling, &RotaryScaling::original_context),
          "context length of the pretraining, in tokens",
          {.low = 1, .high = 1e12, .used_if = {is_rotary, is_scaled}})};
}

// Throws InputError if positions are rotary and a head's width is odd.
void expect_even_heads(const Given<Model>& given) {
  const Heads& attention = given.block.attention;
  if (attention.positions != Positions::rotary) return;
  const std::int64_t C = given.block.width, H = attention.heads, own = attention.head_width;
  given.expect(own % 2 == 0, "positions", "needs an even model.head_width, not {}", own);
  given.expect(own > 0 || C / H % 2 == 0, "positions",
               "needs an even model.width / model.heads, not {} / {}", C, H);
}

}  // namespace

const SettingsOf<TransformerSettings> transformer_settings = [] {
  std::vector<Row> all = of_blocks();
  for (const auto& more : {of_attention(), of_heads(), of_rotation()})
    all.insert(all.end(), more.begin(), more.end());
  all.push_back({"train.checkpoint_activations",
                 &Model::recompute_blocks,
                 "save memory: keep only the blocks' inputs and compute the rest again in the "
                 "backward pass",
                 {.does_not_affect_result = true}});
  return all;
}();

std::vector<KeyInfo> block_keys() { return transformer_settings.keys_to("bias"); }
std::vector<KeyInfo> transformer_keys() { return transformer_settings.keys_to("tied_embeddings"); }
std::vector<KeyInfo> decoder_only_keys() { return transformer_settings.keys(); }

RecurrentStackOptions recurrent_options(const Model& given, RecurrentKind kind,
                                        std::int64_t inputs) {
  return {.kind = kind,
          .layers = given.layers,
          .inputs = inputs,
          .width = given.block.width,
          .dropout = given.block.dropout,
          .bias = given.bias};
}

std::string name_of(Activation activation) {
  TransformerSettings settings;
  settings.block.feed_forward.activation = activation;
  return transformer_settings.text("activation", settings);
}

TransformerBlockOptions block_options(const Given<Model>& given) {
  Block block = given.block;
  if (block.attention.head_width == 0) given.expect_divides("heads", "width");
  expect_even_heads(given);
  for (LinearOptions* linear : {&block.attention.input, &block.attention.output,
                                &block.feed_forward.expand, &block.feed_forward.contract})
    linear->bias = given.bias;
  return block;
}

TransformerBlockOptions block_options_with_attention(const Given<Model>& given) {
  Block block = block_options(given);
  if (given.attention == AttentionKind::random_features)
    block.attention.random_features = given.random_features;
  return block;
}

TransformerOptions transformer_options(const Given<Model>& given, std::int64_t vocabulary,
                                       std::int64_t context) {
  TransformerOptions options = given;
  options.vocabulary = vocabulary;
  options.context = context;
  options.block = block_options_with_attention(given);
  Heads& attention = options.block.attention;
  if (attention.key_value_heads > 0) given.expect_divides("key_value_heads", "heads");
  if (given.rotary_scaling == RotaryScalingKind::llama3) {
    given.expect(given.scaling.low_frequency < given.scaling.high_frequency,
                 "rotary_high_frequency", "must be above model.rotary_low_frequency = {}",
                 given.scaling.low_frequency);
    attention.rotary.scaling = given.scaling;
  }
  if (given.query_key_norm) attention.query_key_norm = options.block.norms.epsilon;
  if (given.attention_bias != AttentionBias::same) {
    attention.input.bias = given.attention_bias != AttentionBias::none;
    attention.output.bias = given.attention_bias == AttentionBias::all;
  }
  return options;
}

}  // namespace tapestry
