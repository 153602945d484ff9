#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
namespace {

Array hide(std::int64_t rows, std::int64_t columns) {
  Array mask = normal({rows, columns});
  mask.mutable_values<double>()[1] = -infinity;
  return mask;
}

}  // namespace

std::vector<LayerRow> attention_layers() {
  Random r = init();
  const Array x = normal({2, 4, 6}), source = normal({2, 5, 3});
  const Array hidden_keys = ints({0, 0, 1, 0, 0, 0, 1, 1, 1, 0}, {2, 5});
  const auto as = [](AttentionOptions options, DType dtype) {
    if (!options.mask.empty()) options.mask = options.mask.to(dtype);
    return options;
  };
  const auto masked = [as](const AttentionOptions& options) {
    return [as, options](const auto& layer, In in) {
      return layer.forward(in[0], as(options, in[0].dtype()));
    };
  };
  const auto masked_cross = [as](const AttentionOptions& options) {
    return [as, options](const auto& layer, In in) {
      return layer.forward(in[0], in[1], as(options, in[0].dtype()));
    };
  };
  const auto self = [&] { return SelfAttention(6, r, {.heads = 2}); };
  const auto other = [&] { return CrossAttention(6, 3, r, {.heads = 3}); };
  const auto with_padding = masked({.key_padding = ints({0, 0, 0, 1, 1, 0, 0, 0}, {2, 4})});
  const AttentionOptions everything{.causal = true, .key_padding = hidden_keys, .mask = hide(4, 5)};
  std::vector<LayerRow> rows = {
      make_row("Attention", Attention(6, 3, 4, r), cross, {x, source}),
      make_row("Attention: causal, padded and masked", Attention(6, 3, 4, r),
               masked_cross(everything), {x, source}),
      make_row("Attention: to itself", Attention(6, 6, 4, r, {.bias = false}),
               [](const Attention& layer, In in) {
                 return layer.forward(in[0], in[0], {.causal = true});
               },
               {x}),
      make_row("SelfAttention", self(), forward, {x}),
      make_row("SelfAttention: causal", self(), masked({.causal = true}), {x}),
      make_row("SelfAttention: padded", self(), with_padding, {x}),
      make_row("SelfAttention: masked", self(), masked({.mask = hide(4, 4)}), {x}),
      make_row("SelfAttention: rotary",
               SelfAttention(6, r, {.heads = 3, .positions = Positions::rotary}),
               masked({.causal = true}), {x}),
      make_row("SelfAttention: shared heads, rotary on halves",
               SelfAttention(6, r,
                             {.heads = 4,
                              .key_value_heads = 2,
                              .head_width = 2,
                              .positions = Positions::rotary,
                              .rotary = {.pairs = RotaryPairs::halves, .base = 50}}),
               masked({.causal = true}), {x}),
      make_row("SelfAttention: heads wider than the width, normalized",
               SelfAttention(6, r,
                             {.heads = 2,
                              .key_value_heads = 1,
                              .head_width = 5,
                              .query_key_norm = 1e-4,
                              .input = {.bias = false}}),
               masked({.causal = true}), {x}),
      make_row("SelfAttention: window", SelfAttention(6, r, {.heads = 2, .window = 2}), forward,
               {x}),
      make_row("CrossAttention", other(), cross, {x, source}),
      make_row("CrossAttention: padded", other(), masked_cross({.key_padding = hidden_keys}),
               {x, source}),
      make_row("CrossAttention: masked", other(), masked_cross({.mask = hide(4, 5)}), {x, source}),
      make_row("CrossAttention: causal, padded and masked", other(), masked_cross(everything),
               {x, source}),
  };
  for (const auto& [norm, name] :
       {std::pair{NormPlacement::pre, "pre"}, {NormPlacement::post, "post"}})
    for (const double rate : {0.0, 0.3})
      rows.push_back(make_row(fmt::format("TransformerBlock: {}, dropout {}", name, rate),
                              TransformerBlock({.width = 6,
                                                .attention = {.heads = 2},
                                                .feed_forward = {.hidden = 5},
                                                .norm = norm,
                                                .dropout = rate},
                                               r),
                              [](const TransformerBlock& block, In in) {
                                Random noise(1, Stream::dropout);
                                return block.forward(
                                    in[0], {.attention = {.causal = true}, .noise = &noise});
                              },
                              {x}));
  return rows;
}

namespace {

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: queries, keys and values are had by name, and are what attention is made of") {
  Random r = init();
  SelfAttention self(6, r, {.heads = 3, .positions = Positions::rotary});
  CrossAttention other(6, 5, r, {.heads = 2});
  randomised(self, f64), randomised(other, f64);
  const Tensor x = normal({2, 4, 6}), source = normal({2, 3, 5});
  const QueryKeyValue own = self.project(x);
  const Tensor y = scaled_dot_product_attention(own.query(), own.key(), own.value(), {.heads = 3});
  CHECK(distance(self.forward(x).value(), self.output.forward(y).value()) <= 1e-14);
  const KeyValue given = other.project(source);
  const Tensor z = scaled_dot_product_attention(other.query.forward(x), given.key(), given.value(),
                                                {.heads = 2});
  CHECK(distance(other.forward(x, source).value(), other.output.forward(z).value()) <= 1e-14);
}

TEST_CASE("layers: heads that share keys and values are those of a layer that repeats them") {
  Random r = init();
  const std::int64_t C = 6, H = 4, G = 2, D = 3;
  const auto options = [&](std::int64_t shared) {
    return MultiHeadOptions{.heads = H,
                            .key_value_heads = shared,
                            .head_width = D,
                            .positions = Positions::none,
                            .query_key_norm = 1e-5};
  };
  SelfAttention shares(C, r, options(G)), repeats(C, r, options(0));
  randomised(shares, f64), randomised(repeats, f64);
  CHECK(shares.query_key_value.weight.tensor.shape() == Shape{(H + 2 * G) * D, C});
  CHECK(shares.output.weight.tensor.shape() == Shape{C, H * D});
  // Rows of the repeating layer, a head at a time: of which of the sharing layer's heads each is.
  for (const auto& [to, from] :
       {std::pair{&repeats.query_key_value.weight, &shares.query_key_value.weight},
        {&repeats.query_key_value.bias, &shares.query_key_value.bias}}) {
    const std::int64_t row = from->tensor.size() / (H + 2 * G);
    const auto in = from->value().values<double>();
    const Array target = to->value();
    const auto out = Array(target).mutable_values<double>();
    for (std::int64_t h = 0; h < 3 * H; ++h) {
      const std::int64_t source = h < H ? h : h < 2 * H ? H + (h - H) / 2 : H + G + (h - 2 * H) / 2;
      std::copy_n(in.begin() + source * row, row, out.begin() + h * row);
    }
  }
  for (const auto& [to, from] : {std::pair{&repeats.output.weight, &shares.output.weight},
                                 {&repeats.output.bias, &shares.output.bias},
                                 {&repeats.query_norm->weight, &shares.query_norm->weight},
                                 {&repeats.key_norm->weight, &shares.key_norm->weight}})
    to->value().copy_from(from->value());
  const Tensor x = normal({2, 4, C});
  CHECK(distance(shares.forward(x, {.causal = true}).value(),
                 repeats.forward(x, {.causal = true}).value()) <= 1e-13);
  const auto weights_of = [&](const SelfAttention& layer) {
    AttentionRecorder recorder;
    layer.forward(x, {.causal = true});
    return recorder.entries.front().weights;
  };
  CHECK(weights_of(shares).shape() == Shape{2, H, 4, 4});
  CHECK(distance(weights_of(shares), weights_of(repeats)) <= 1e-13);
}

TEST_CASE("layers: one head is the attention of the equation") {
  Random r = init();
  Attention layer(6, 3, 4, r);
  randomised(layer, f64);
  const Tensor x = normal({2, 4, 6}), source = normal({2, 5, 3});
  const Tensor q = layer.query.forward(x), k = layer.key.forward(source),
               v = layer.value.forward(source);
  const Tensor scores = scale(matmul(q, k, {.transpose_b = true}), 0.5);  // 1 / √4
  const Tensor y = matmul(softmax(scores), v);
  CHECK(distance(layer.forward(x, source).value(), y.value()) <= 1e-12);
  CHECK(distance(layer.forward(x, source, {.heads = 2}).value(), y.value()) <= 1e-12);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
