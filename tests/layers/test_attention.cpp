#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

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

TEST_CASE("layers: queries, keys and values are found by name, and give the attention") {
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

TEST_CASE("layers: one head computes the equation of attention") {
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

// Compares with exact functions of queries, keys and values; scaled keys are multiplied by their
// scales.
constexpr auto whole_features = [](const RandomFeatures& layer, In x) {
  const Features features = layer.forward(x[0]);
  if (features.log_scales.empty()) return features.values;
  const Shape& by_time = features.log_scales.shape();
  const Array scales = features.log_scales.reshaped({by_time[0], by_time[1], 1, by_time[2]});
  return features.values * exp(Tensor(scales));
};

}  // namespace

std::vector<LayerRow> random_feature_layers() {
  Random r = init();
  const Array x = normal({2, 5, 6}), source = normal({2, 4, 3});
  const Array hidden = ints({0, 0, 1, 0, 0, 0, 1, 1, 1, 0}, {2, 5});
  const Array hidden_source = ints({0, 0, 1, 0, 0, 1, 0, 1}, {2, 4});
  const auto layer = [&](const RandomFeaturesOptions& features) {
    return SelfAttention(6, r, {.heads = 2, .random_features = features});
  };
  const auto turning = [&](const RandomFeaturesOptions& features) {
    return SelfAttention(6, r,
                         {.heads = 3, .positions = Positions::rotary, .random_features = features});
  };
  const auto crossing = [&](const RandomFeaturesOptions& features) {
    return CrossAttention(6, 3, r, {.heads = 2, .random_features = features});
  };
  const auto self = [](const AttentionOptions& options) {
    return [options](const auto& l, In in) { return l.forward(in[0], options); };
  };
  const auto padded_cross = [=](const auto& l, In in) {
    return l.forward(in[0], in[1], {.key_padding = hidden_source});
  };
  std::vector<LayerRow> rows;
  for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
    const std::string name = map == FeatureMap::trigonometric ? "trigonometric" : "positive";
    const RandomFeaturesOptions plain{.features = 40, .map = map};
    const RandomFeaturesOptions gated{.features = 40, .map = map, .gate = true};
    rows.push_back(make_row("RandomFeatures: " + name, RandomFeatures(2, 3, r, plain),
                            whole_features, {normal({2, 2, 4, 3})}));
    const std::string prefix = "SelfAttention: " + name + " features, ";
    const std::string cross_prefix = "CrossAttention: " + name + " features";
    rows.push_back(make_row(prefix + "bidirectional", layer(plain), self({}), {x}));
    rows.push_back(make_row(prefix + "padded", layer(plain), self({.key_padding = hidden}), {x}));
    rows.push_back(make_row(prefix + "causal", layer(plain), self({.causal = true}), {x}));
    rows.push_back(make_row(prefix + "causal, padded", layer(plain),
                            self({.causal = true, .key_padding = hidden}), {x}));
    rows.push_back(make_row(prefix + "gate", layer(gated), self({.causal = true}), {x}));
    rows.push_back(make_row(prefix + "rotary", turning(gated), self({.causal = true}), {x}));
    rows.push_back(make_row(cross_prefix, crossing(plain), cross, {x, source}));
    rows.push_back(make_row(cross_prefix + ", padded", crossing(plain), padded_cross, {x, source}));
  }
  rows.push_back(make_row(
      "TransformerBlock: random features",
      TransformerBlock(
          {.width = 6,
           .attention = {.heads = 2, .random_features = RandomFeaturesOptions{.gate = true}},
           .feed_forward = {.hidden = 5},
           .dropout = 0.3},
          r),
      [](const TransformerBlock& block, In in) {
        Random noise(1, Stream::dropout);
        return block.forward(in[0], {.attention = {.causal = true}, .noise = &noise});
      },
      {x}));
  return rows;
}

namespace {

// unit rows (…, T, D) · √D: scaled_dot_product_attention divides the products by √D.
Tensor spread(const Tensor& x) { return unit_rows(x) * std::sqrt(static_cast<double>(x.dim(-1))); }

// Returns the root mean square error of attention by features for a few random w.
double feature_error(const RandomFeaturesOptions& options, const AttentionOptions& attention) {
  constexpr std::int64_t H = 2, D = 8;
  // The variance of the exponentials of long vectors is too large for few features.
  const Tensor q = 0.5 * Tensor(normal({3, H, 40, D})), k = 0.5 * Tensor(normal({3, H, 40, D})),
               v = normal({3, 40, H * D});
  const bool unit = options.map == FeatureMap::trigonometric;
  const Tensor values = permute(reshape(v, {3, 40, H, D}), {0, 2, 1, 3});
  const Tensor exact = scaled_dot_product_attention(unit ? spread(q) : q, unit ? unit_rows(k) : k,
                                                    values, attention);
  double squares = 0;
  constexpr int draws = 6;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    Random r = init(seed);
    RandomFeatures layer(H, D, r, options);
    layer.convert(f64);
    const Features keys = layer.forward(k);
    const Tensor y = linear_attention(layer.forward(q).values, keys.values, v, {},
                                      {.causal = attention.causal,
                                       .key_padding = attention.key_padding,
                                       .key_log_scales = keys.log_scales,
                                       .floor = layer.floor()});
    const Tensor difference = permute(reshape(y, {3, 40, H, D}), {0, 2, 1, 3}) - exact;
    squares += mean(difference * difference).item() / draws;
  }
  return std::sqrt(squares);
}

TEST_CASE("layers: attention by random features approaches the softmax as 1/√D") {
  Array padding = Array::zeros({3, 40}, DType::int32);
  for (std::size_t i = 0; i < 120; i += 3) padding.mutable_values<std::int32_t>()[i] = 1;
  const AttentionOptions forms[] = {{}, {.causal = true}, {.key_padding = padding}};
  for (const AttentionOptions& form : forms)
    for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
      std::vector<double> errors;
      for (const std::int64_t features : {16, 64, 256, 1024})
        errors.push_back(feature_error({.features = features, .map = map}, form));
      INFO(fmt::format("{}: {:.3f} {:.3f} {:.3f} {:.3f}",
                       map == FeatureMap::trigonometric ? "trigonometric" : "positive", errors[0],
                       errors[1], errors[2], errors[3]));
      for (std::size_t i = 1; i < errors.size(); ++i)
        CHECK(errors[i - 1] / errors[i] > 1.3);  // of 2
      CHECK(errors[0] / errors[3] > 4);          // of 8
      CHECK(errors[3] < 0.1);
    }
}

// Within four deviations of the mean of so many: (1 - k²)/√2 of one trigonometric product and
// k √(e^|x' + y'|² - 1) of one positive (Choromanski et al. 2020, lemma 2), which orthogonal
// directions lower.
TEST_CASE("layers: products of random features are unbiased estimates of the kernel") {
  constexpr std::int64_t D = 4;
  constexpr double draws = 200000;
  const Tensor x = 0.5 * Tensor(normal({1, 5, D})), y = 0.5 * Tensor(normal({1, 5, D}));
  for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
    Random r = init();
    RandomFeatures layer(1, D, r, {.features = static_cast<std::int64_t>(draws), .map = map});
    layer.convert(f64);
    const bool unit = map == FeatureMap::trigonometric;
    const Tensor sigma = Array::of<double>({0.5, 1, 1.5, 0.8}, {1, D});
    if (unit) set(*layer.sigma, doubles(sigma.value()));
    const auto features = [&](const Tensor& z) {
      const Features f = layer.forward(z);
      return unit ? f.values : f.values * exp(Tensor(f.log_scales.reshaped({1, 1, 5})));
    };
    const Tensor products = matmul(features(x), features(y), {.transpose_a = true});
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 5; ++j) {
        const Tensor a = slice(x, 1, i, i + 1), b = slice(y, 1, j, j + 1);
        const Tensor difference = (unit_rows(a) - unit_rows(b)) * sigma;
        const double wanted = unit ? std::exp(-0.5 * sum(difference * difference).item())
                                   : std::exp(0.5 * sum(a * b).item());
        const double found = products.value().values<double>()[i * 5 + j];
        const double square = sum((a + b) * (a + b)).item() / std::sqrt(static_cast<double>(D));
        const double deviation = unit ? (1 - wanted * wanted) / std::numbers::sqrt2
                                      : wanted * std::sqrt(std::expm1(square));
        CHECK(std::abs(found - wanted) <= 4 * deviation / std::sqrt(draws) + 1e-12);
      }
  }
}

TEST_CASE("layers: positive features are sampled in orthogonal groups by the seed") {
  Random r = init(5), again = init(5), other = init(6);
  const RandomFeaturesOptions options{.features = 10, .map = FeatureMap::positive};
  const RandomFeatures layer(2, 4, r, options);
  const Tensor w = layer.projection.tensor;
  CHECK(w.id() == 0);
  const std::vector<double> products = doubles(matmul(w, w, {.transpose_b = true}).value());
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < 10; ++i)
      for (std::int64_t j = 0; j < i; ++j)
        if (i / 4 == j / 4) CHECK(std::abs(products[(h * 10 + i) * 10 + j]) <= 1e-5);
  CHECK(same_bits(w.value(), RandomFeatures(2, 4, again, options).projection.value()));
  CHECK_FALSE(same_bits(w.value(), RandomFeatures(2, 4, other, options).projection.value()));
  CHECK_THROWS_AS(RandomFeatures(2, 4, r, {.features = 0}), std::invalid_argument);
}

TEST_CASE("layers: attention by random features has no weights to record") {
  Random r = init();
  const SelfAttention layer(4, r, {.heads = 2, .random_features = RandomFeaturesOptions{}});
  const AttentionRecorder recorder;
  CHECK_THROWS_WITH_AS(
      layer.forward(Tensor(Array::zeros({1, 2, 4}))),
      doctest::Contains("multi-head attention: random features compute no attention weights"),
      InputError);
}

TEST_CASE("layers: padding does not change attention by random features") {
  const Array hidden = ints({0, 0, 1, 0, 1, 1, 0, 0, 0, 1}, {2, 5});
  const auto spoil = [&](const Array& x) {
    Array spoiled = x.clone();
    for (std::int64_t i = 0; i < spoiled.size(); ++i)
      if (hidden.values<std::int32_t>()[i / x.dim(2)]) spoiled.mutable_values<double>()[i] *= -50;
    return spoiled;
  };
  const auto visible = [&](const Array& x) {  // the rows of visible tokens
    std::vector<double> rows;
    for (std::int64_t i = 0; i < x.size(); ++i)
      if (!hidden.values<std::int32_t>()[i / x.dim(2)]) rows.push_back(doubles(x)[i]);
    return rows;
  };
  for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
    Random r = init();
    const RandomFeaturesOptions options{.map = map};
    SelfAttention self(4, r, {.heads = 2, .random_features = options});
    CrossAttention other(4, 3, r, {.heads = 2, .random_features = options});
    randomised(self, f64), randomised(other, f64);
    const Array x = normal({2, 5, 4}), source = normal({2, 5, 3});
    for (const bool causal : {false, true}) {
      const AttentionOptions padded{.causal = causal, .key_padding = hidden};
      CHECK(visible(self.forward(x, padded).value()) ==
            visible(self.forward(spoil(x), padded).value()));
      CHECK(visible(self.forward(x).value()) != visible(self.forward(spoil(x)).value()));
    }
    CHECK(same_bits(other.forward(x, source, {.key_padding = hidden}).value(),
                    other.forward(x, spoil(source), {.key_padding = hidden}).value()));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
