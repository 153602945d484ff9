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
  const auto self = [&] { return MultiHeadAttention(6, 2, r); };
  const auto other = [&] {
    return MultiHeadAttention(6, 3, r, {.source_width = 3, .input = {}, .output = {}});
  };
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
      make_row("MultiHeadAttention: self", self(), forward, {x}),
      make_row("MultiHeadAttention: self, causal", self(), masked({.causal = true}), {x}),
      make_row("MultiHeadAttention: self, padded", self(), with_padding, {x}),
      make_row("MultiHeadAttention: self, masked", self(), masked({.mask = hide(4, 4)}), {x}),
      make_row("MultiHeadAttention: self, rotary",
               MultiHeadAttention(6, 3, r, {.input = {}, .output = {}, .rotary_positions = true}),
               masked({.causal = true}), {x}),
      make_row("MultiHeadAttention: cross", other(), cross, {x, source}),
      make_row("MultiHeadAttention: cross, padded", other(),
               masked_cross({.key_padding = hidden_keys}), {x, source}),
      make_row("MultiHeadAttention: cross, masked", other(), masked_cross({.mask = hide(4, 5)}),
               {x, source}),
      make_row("MultiHeadAttention: cross, causal, padded and masked", other(),
               masked_cross(everything), {x, source}),
  };
  for (const auto& [norm, name] :
       {std::pair{NormPlacement::pre, "pre"}, {NormPlacement::post, "post"}})
    for (const double rate : {0.0, 0.3})
      rows.push_back(make_row(fmt::format("TransformerBlock: {}, dropout {}", name, rate),
                              TransformerBlock({.width = 6,
                                                .heads = 2,
                                                .hidden = 5,
                                                .norm = norm,
                                                .dropout = rate,
                                                .input = {},
                                                .residual = {}},
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
