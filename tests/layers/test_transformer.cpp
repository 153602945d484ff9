#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/buffer_pool.hpp"
#include "autograd/ops.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
namespace {

std::vector<LayerRow> causal_rows() {
  Random r = init();
  std::vector<std::pair<std::string, TransformerOptions>> variants(15, {"", tiny});
  variants[0].first = "tied, learned";
  variants[1].first = "untied", variants[1].second.tied_embeddings = false;
  variants[2].first = "sinusoidal",
  variants[2].second.block.attention.positions = Positions::sinusoidal;
  variants[3].first = "post-norm", variants[3].second.block.norm = NormPlacement::post;
  variants[4].first = "no bias";
  TransformerBlockOptions& unbiased = variants[4].second.block;
  for (LinearOptions* linear : {&unbiased.attention.input, &unbiased.attention.output,
                                &unbiased.feed_forward.expand, &unbiased.feed_forward.contract})
    linear->bias = false;
  variants[5].first = "dropout", variants[5].second.block.dropout = 0.2;
  variants[6].first = "relu", variants[6].second.block.feed_forward.activation = Activation::relu;
  variants[7].first = "rotary", variants[7].second.block.attention.positions = Positions::rotary;
  variants[8].first = "no positions",
  variants[8].second.block.attention.positions = Positions::none;
  variants[9].first = "window", variants[9].second.block.attention.window = 2;
  variants[10].first = "random features",
  variants[10].second.block.attention.random_features = {.gate = true};
  variants[11].first = "positive random features";
  variants[11].second.block.attention.random_features = {.map = FeatureMap::positive};
  variants[12].first = "like Llama", variants[12].second.block = llama_block;
  variants[13].first = "like Qwen3, tied, recomputed", variants[13].second.block = llama_block;
  variants[13].second.block.attention.query_key_norm = 1e-6;
  variants[13].second.block.attention.head_width = 6;
  variants[13].second.recompute_blocks = true;
  variants[14].first = "like Llama by wide random features",
  variants[14].second.block = llama_block;
  variants[14].second.block.attention = {
      .heads = 2, .head_width = 3, .random_features = RandomFeaturesOptions{}};
  std::vector<LayerRow> rows;
  for (const auto& [name, options] : variants)
    rows.push_back(make_row("Transformer: " + name, Transformer(options, r),
                            [](const Transformer& model, In) {
                              Random noise(1, Stream::dropout);
                              const Array tokens = ints({4, 0, 2, 4, 4, 1}, {2, 3}),
                                          targets = ints({1, 2, 0, 3, -1, 4}, {2, 3});
                              return cross_entropy(model.forward(tokens, &noise), targets);
                            },
                            {}));
  return rows;
}

std::vector<LayerRow> decoder_rows() {
  Random r = init();
  const EncoderDecoderOptions pair{
      .source_vocabulary = 5,
      .target_vocabulary = 5,
      .source_context = 4,
      .target_context = 3,
      .encoder_layers = 1,
      .decoder_layers = 2,
      .block = {.width = 4,
                .attention = {.heads = 2, .positions = Positions::sinusoidal},
                .feed_forward = {.hidden = 6},
                .dropout = 0.2}};
  std::vector<LayerRow> rows;
  std::vector<std::pair<std::string, EncoderDecoderOptions>> pairs(8, {"", pair});
  pairs[0].first = "pre-norm, two tables";
  pairs[1].first = "post-norm", pairs[1].second.block.norm = NormPlacement::post;
  pairs[2].first = "learned, shared",
  pairs[2].second.block.attention.positions = Positions::learned;
  pairs[2].second.shared_embeddings = true;
  pairs[4].first = "rotary, in a window",
  pairs[4].second.block.attention.positions = Positions::rotary;
  pairs[4].second.block.attention.window = 2;
  pairs[5].first = "no positions", pairs[5].second.block.attention.positions = Positions::none;
  pairs[3].first = "untied", pairs[3].second.tied_embeddings = false;
  pairs[6].first = "random features", pairs[6].second.block.attention.random_features.emplace();
  pairs[7].first = "gated, root mean square", pairs[7].second.block.feed_forward.gated = true;
  pairs[7].second.block.norms.kind = NormKind::rms;
  for (const auto& [name, options] : pairs)
    rows.push_back(make_row("EncoderDecoder: " + name, EncoderDecoder(options, r),
                            [](const EncoderDecoder& model, In) {
                              Random noise(1, Stream::dropout);
                              const Array source = ints({4, 0, 2, 1, 4, 1, 3, 0}, {2, 4}),
                                          padding = ints({0, 0, 0, 0, 0, 0, 1, 1}, {2, 4}),
                                          target = ints({1, 2, 0, 3, 2, 4}, {2, 3}),
                                          next = ints({2, 0, 3, 2, 4, -1}, {2, 3});
                              const auto encoded = model.encode(source, padding, &noise);
                              return cross_entropy(model.decode(target, encoded, &noise), next);
                            },
                            {}));
  EncoderDecoderOptions described = pairs[2].second;
  described.encoder_layers = 0;
  described.patches =
      PatchEncoderOptions{.patches = 4, .values = 3, .layers = 1, .block = described.block};
  rows.push_back(make_row("EncoderDecoder: of patches", EncoderDecoder(described, r),
                          [](const EncoderDecoder& model, In in) {
                            Random noise(1, Stream::dropout);
                            const Array target = ints({1, 2, 0, 3, 2, 4}, {2, 3}),
                                        next = ints({2, 0, 3, 2, 4, -1}, {2, 3});
                            const auto encoded = model.encode_patches(in[0], &noise);
                            return cross_entropy(model.decode(target, encoded, &noise), next);
                          },
                          {normal({2, 4, 3})}));
  return rows;
}

}  // namespace

std::vector<LayerRow> transformer_layers() {
  std::vector<LayerRow> rows = causal_rows();
  for (const LayerRow& row : decoder_rows()) rows.push_back(row);
  return rows;
}

namespace {

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: a transformer is initialized as GPT-2, from its standard deviation") {
  for (const double initial_deviation : {0.02, 0.08}) {
    Random r = init();
    Transformer model({.vocabulary = 100,
                       .layers = 3,
                       .block = {.width = 64, .attention = {.heads = 2}},
                       .tied_embeddings = false,
                       .initial_deviation = initial_deviation},
                      r);
    for (const Parameter* parameter : model.parameters()) {
      CAPTURE(parameter->name);
      const std::vector<double> values = doubles(parameter->value());
      double sum = 0, squares = 0;
      for (const double v : values) sum += v, squares += v * v;
      const auto n = static_cast<double>(values.size());
      const bool residual = parameter->name.ends_with("output.weight") ||
                            parameter->name.ends_with("contract.weight");
      const bool scales = parameter->name.ends_with("norm.weight");
      const double mean = scales ? 1 : 0;
      const double deviation = parameter->name.ends_with("bias") || scales ? 0
                               : residual ? initial_deviation / std::sqrt(6.0)
                                          : initial_deviation;
      CHECK(std::abs(sum / n - mean) <= 5 * deviation / std::sqrt(n));
      CHECK(std::abs(std::sqrt(std::max(0.0, squares / n - mean)) - deviation) <= 0.05 * deviation);
    }
  }
}

TEST_CASE("layers: blocks compute their equations, with dropout on both branches") {
  Random r = init();
  for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post}) {
    TransformerBlock block({.width = 6, .attention = {.heads = 2}, .norm = norm, .dropout = 0.3},
                           r);
    randomised(block, f64);
    CHECK(block.feed_forward->expand.weight.tensor.shape() == Shape{24, 6});  // 4 · width
    const Tensor x = normal({2, 4, 6});
    Random noise(1, Stream::dropout), same_noise = noise;
    const auto D = [&](const Tensor& y) { return block.dropout.forward(y, &noise); };
    const auto A = [&](const Tensor& y) { return D(block.attention.forward(y, {.causal = true})); };
    const auto F = [&](const Tensor& y) { return D(block.feed_forward->forward(y)); };
    const auto N1 = [&](const Tensor& y) { return block.attention_norm.forward(y); };
    const auto N2 = [&](const Tensor& y) { return block.feed_forward_norm->forward(y); };
    Tensor y;
    if (norm == NormPlacement::pre)
      y = x + A(N1(x)), y = y + F(N2(y));
    else
      y = N1(x + A(x)), y = N2(y + F(y));
    const Tensor z = block.forward(x, {.attention = {.causal = true}, .noise = &same_noise});
    CHECK(same_bits(z.value(), y.value()));
    CHECK(noise.bits() == same_noise.bits());
  }
}

TEST_CASE("layers: a transformer composes its modules, with dropout on the embeddings") {
  Random r = init();
  for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post}) {
    TransformerOptions options = tiny;
    options.block.norm = norm;
    options.block.dropout = 0.3;
    Transformer model(options, r);
    randomised(model, f64);
    const Array tokens = ints({1, 2, 3, 4, 0, 1}, {2, 3});
    Random noise(1, Stream::dropout), same_noise = noise;
    Tensor x = model.position_embedding.forward(model.token_embedding.forward(tokens));
    x = model.dropout.forward(x, &noise);
    for (const TransformerBlock& block : model.blocks)
      x = block.forward(x, {.attention = {.causal = true}, .noise = &noise});
    CHECK(model.final_norm.has_value() == (norm == NormPlacement::pre));
    if (model.final_norm) x = model.final_norm->forward(x);
    x = matmul(x, model.token_embedding.weight, {.transpose_b = true});
    CHECK(distance(model.forward(tokens, &same_noise).value(), x.value()) <= 1e-14);
    CHECK(distance(model.forward(tokens).value(), x.value()) > 0.01);
  }
}

TEST_CASE("layers: recomputing blocks changes no bit, dropout included, and holds less memory") {
  const auto train_once = [](bool recompute_blocks) {
    Random r = init();
    Transformer model({.vocabulary = 20,
                       .context = 64,
                       .layers = 6,
                       .block = {.width = 32, .attention = {.heads = 2}, .dropout = 0.2},
                       .recompute_blocks = recompute_blocks},
                      r);
    const Array tokens = random_tokens({8, 64}, 20), targets = random_tokens({8, 64}, 20, 3);
    Random noise(7, Stream::dropout);
    reset_peak_memory();
    const std::int64_t before = memory_use().bytes_in_use;
    Tape tape;
    const Gradients gradients =
        tape.backward(cross_entropy(model.forward(tokens, &noise), targets));
    std::vector<Array> found;
    for (const Parameter* parameter : model.parameters()) found.push_back(gradients[*parameter]);
    return std::pair(found, memory_use().peak_bytes_in_use - before);
  };
  const auto [kept, kept_bytes] = train_once(false);
  const auto [recomputed, recomputed_bytes] = train_once(true);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(same_bits(kept[i], recomputed[i]));
  CHECK(recomputed_bytes < kept_bytes / 2);
}

TEST_CASE("layers: logits of a transformer do not depend on later tokens") {
  Random r = init();
  Transformer model(tiny, r);
  randomised(model, f64);
  const std::vector<double> before = doubles(model.forward(ints({1, 2, 3, 4}, {1, 4})).value());
  const std::vector<double> after = doubles(model.forward(ints({1, 2, 0, 1}, {1, 4})).value());
  CHECK(std::equal(before.begin(), before.begin() + 10, after.begin()));
  CHECK_FALSE(std::equal(before.begin() + 10, before.begin() + 15, after.begin() + 10));
}

TEST_CASE("layers: logits of a transformer with a window depend on a window per layer") {
  Random r = init();
  TransformerOptions options = tiny;
  options.block.attention.window = 2;
  Transformer model(options, r);
  randomised(model, f64);
  const auto last = [&](const std::vector<std::int32_t>& tokens) {
    return slice(model.forward(ints(tokens, {1, 4})), 1, 3, 4).value();
  };
  CHECK(same_bits(last({1, 2, 3, 4}), last({0, 2, 3, 4})));  // two layers attend two tokens back
  CHECK(distance(last({1, 2, 3, 4}), last({1, 0, 3, 4})) > 1e-3);
}

TEST_CASE("layers: without positions, causal attention alone depends on the order of tokens") {
  Random r = init();
  TransformerOptions options = tiny;
  options.block.attention.positions = Positions::none;
  options.layers = 1;
  Transformer model(options, r);
  randomised(model, f64);
  const auto last = [&](const std::vector<std::int32_t>& tokens) {
    return slice(model.forward(ints(tokens, {1, 4})), 1, 3, 4).value();
  };
  CHECK(distance(last({1, 2, 3, 4}), last({3, 1, 2, 4})) <= 1e-12);
  CHECK(distance(last({1, 2, 3, 4}), last({1, 2, 0, 4})) > 1e-3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
