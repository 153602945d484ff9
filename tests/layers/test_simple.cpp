#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "autograd/ops.hpp"
#include "layers/mlp.hpp"
#include "layers/models/skip_gram.hpp"
#include "layers/norm.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
std::vector<LayerRow> simple_layers() {
  Random r = init();
  const Array x = normal({2, 3, 6}), tokens = ints({4, 0, 2, 4, 4, 1}, {2, 3}),
              places = ints({0, 1, 0, 2, 2, 0}, {2, 3});
  const auto noisy = [](const auto& layer, In in) {
    Random noise(1, Stream::dropout);
    return layer.forward(in[0], &noise);
  };
  return {
      make_row("Linear", Linear(6, 4, r), forward, {x}),
      make_row("Linear: no bias", Linear(6, 4, r, {.bias = false}), forward, {x}),
      make_row("Linear: a vector", Linear(6, 4, r), forward, {normal({6})}),
      make_row("SkipGram", SkipGram(5, 6, r),
               [](const SkipGram& model, In) {
                 return model.forward(ints({1, 2, -1, 3}, {2, 2}), ints({4, 0, 2, 2}, {2, 2}));
               },
               {}),
      make_row("Embedding", Embedding(5, 6, r),
               [tokens](const Embedding& layer, In) { return layer.forward(tokens); }, {}),
      make_row("Norm: layer", Norm(6), forward, {x}),
      make_row("Norm: rms", Norm(6, {.kind = NormKind::rms, .epsilon = 1e-3}), forward, {x}),
      make_row("Dropout", Dropout(0.4), noisy, {x}),
      make_row("Dropout: no noise", Dropout(0.4),
               [](const Dropout& layer, In in) { return layer.forward(in[0], nullptr); }, {x}),
      make_row("FeedForward: gelu", FeedForward(6, r, {.hidden = 9}), forward, {x}),
      make_row("FeedForward: gelu_tanh",
               FeedForward(6, r, {.hidden = 9, .activation = Activation::gelu_tanh}), forward, {x}),
      make_row(
          "FeedForward: relu",
          FeedForward(6, r,
                      {.hidden = 9, .activation = Activation::relu, .contract = {.bias = false}}),
          forward, {x}),
      make_row("FeedForward: silu, gated",
               FeedForward(6, r, {.hidden = 9, .activation = Activation::silu, .gated = true}),
               forward, {x}),
      make_row("FeedForward: gelu, gated", FeedForward(6, r, {.hidden = 9, .gated = true}), forward,
               {x}),
      make_row("PositionalEncoding: sinusoidal",
               PositionalEncoding({.kind = Positions::sinusoidal}, r), forward, {x}),
      make_row("PositionalEncoding: sinusoidal, of scaled inputs",
               PositionalEncoding({.kind = Positions::sinusoidal, .input_scale = 3}, r), forward,
               {x}),
      make_row("PositionalEncoding: learned", PositionalEncoding({.context = 5, .width = 6}, r),
               forward, {x}),
      make_row(
          "PositionalEncoding: learned, later", PositionalEncoding({.context = 5, .width = 6}, r),
          [](const PositionalEncoding& layer, In in) { return layer.forward(in[0], {2}); }, {x}),
      make_row(
          "PositionalEncoding: learned, of each token",
          PositionalEncoding({.context = 5, .width = 6}, r),
          [places](const PositionalEncoding& layer, In in) { return layer.forward(in[0], places); },
          {x}),
      make_row(
          "PositionalEncoding: sinusoidal, of each token",
          PositionalEncoding({.kind = Positions::sinusoidal, .input_scale = 3}, r),
          [places](const PositionalEncoding& layer, In in) { return layer.forward(in[0], places); },
          {x}),
      make_row("PositionalEncoding: rotary", PositionalEncoding({.kind = Positions::rotary}, r),
               forward, {x}),
      make_row("PositionalEncoding: none", PositionalEncoding({.kind = Positions::none}, r),
               forward, {x}),
      make_row("Mlp: relu", Mlp({6, 5, 4, 3}, r), forward, {x}),
      make_row("Mlp: gelu to the end", Mlp({6, 5, 3}, r, {Activation::gelu, true}), forward, {x}),
      make_row("Mlp: one layer", Mlp({6, 2}, r), forward, {x}),
  };
}

namespace {

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: Linear is initialized as in PyTorch") {
  Random r = init();
  const Linear layer(16, 400, r);
  for (const Parameter* parameter : {&layer.weight, &layer.bias}) {
    const std::vector<double> values = doubles(parameter->value());
    const auto [low, high] = std::ranges::minmax(values);
    CHECK(low == doctest::Approx(-0.25).epsilon(0.05));
    CHECK(high == doctest::Approx(0.25).epsilon(0.05));
    CHECK(std::max(-low, high) <= 0.25);
  }
}

TEST_CASE("bug: a field that points to no module ended the program") {
  struct Optional final : Module {
    std::unique_ptr<Linear> none, some;
    void fields(FieldVisitor& visit) override { visit.all("none, some", none, some); }
  } model;
  Random r = init();
  model.some = std::make_unique<Linear>(2, 1, r);
  const std::vector<Parameter*> parameters = model.parameters();
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0]->name == "some.weight");
}

TEST_CASE("layers: learned positions are rows of the table, and limited by it") {
  Random r = init();
  const PositionalEncoding layer({.context = 3, .width = 2}, r);
  const std::vector<double> table = doubles(layer.weight->value());
  const Array zeros = Array::zeros({1, 2, 2});
  CHECK(doubles(layer.forward(zeros, {1}).value()) ==
        std::vector<double>(table.begin() + 2, table.end()));
  CHECK_THROWS_AS(layer.forward(zeros, {2}), std::invalid_argument);
}

TEST_CASE("bug: the encoding of zero positions read out of bounds") {
  Random r = init();
  for (const Positions kind : {Positions::learned, Positions::sinusoidal})
    for (const Shape& shape : {Shape{0, 3, 2}, Shape{2, 0, 2}}) {
      const PositionalEncoding layer({.kind = kind, .context = 3, .width = 2}, r);
      const Tensor x = Array::zeros(shape);
      CHECK(layer.forward(x, ints({}, {shape[0], shape[1]})).shape() == shape);
      if (shape[0] == 0) CHECK(layer.forward(x, std::vector<std::int64_t>()).shape() == shape);
    }
}

TEST_CASE("layers: rotary embeddings rotate each pair of columns by the position times its rate") {
  // Two heads of width 4, and two columns that are not rotated.
  const std::vector<double> x = {1, 0, 0, 1, 0, 2, 3, 0, 5, 6};
  const std::vector<double> y = doubles(
      rotary(Array::of(x, {1, 10}), {.head_width = 4, .columns = 8, .firsts = {3}}).value());
  const double a = 3, b = 0.03;
  const std::vector<double> wanted = {
      std::cos(a),     std::sin(a),     -std::sin(b),    std::cos(b), -2 * std::sin(a),
      2 * std::cos(a), 3 * std::cos(b), 3 * std::sin(b), 5,           6};
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == doctest::Approx(wanted[i]));
}

TEST_CASE("layers: scores with rotary embeddings depend on the difference of positions only") {
  const Tensor q = normal({1, 6}), k = normal({1, 6});
  const auto score = [&](std::int64_t t, std::int64_t s) {
    return sum(rotary(q, {.firsts = {t}}) * rotary(k, {.firsts = {s}})).item();
  };
  for (const std::int64_t shift : {1, 17, 4096})
    CHECK(score(5 + shift, 2 + shift) == doctest::Approx(score(5, 2)).epsilon(1e-11));
  CHECK(std::abs(score(5, 2) - score(6, 2)) > 1e-3);
  CHECK(std::abs(score(5, 2) - score(2, 5)) > 1e-3);

  // So a row of tokens gives the same at any start, and its order matters.
  Random r = init();
  TransformerOptions options = tiny;
  options.block.attention.positions = Positions::rotary;
  Transformer model(options, r);
  randomised(model, f64);
  const Tensor x = normal({1, 4, 4});
  const SelfAttention& layer = model.blocks[0].attention;
  const Tensor qkv = layer.query_key_value.forward(x);
  const auto attended = [&](std::int64_t first) {
    return packed_self_attention(rotary(qkv, {.head_width = 2, .columns = 8, .firsts = {first}}),
                                 {.heads = 2, .causal = true});
  };
  CHECK(distance(layer.forward(x, {.causal = true}).value(),
                 layer.output.forward(attended(0)).value()) <= 1e-14);
  CHECK(distance(attended(1000).value(), attended(0).value()) <= 1e-11);
  CHECK(distance(attended(0).value(),
                 packed_self_attention(qkv, {.heads = 2, .causal = true}).value()) > 1e-3);
}

TEST_CASE("layers: dropout is the identity without noise, and keeps the mean with it") {
  const Tensor x = Array::full({100000}, 1);
  const double rate = 0.3;
  Random noise(4, Stream::dropout);
  CHECK(Dropout(rate).forward(x, nullptr).value().raw() == x.value().raw());
  CHECK(Dropout(0).forward(x, &noise).value().raw() == x.value().raw());
  CHECK(noise.bits() == Random(4, Stream::dropout).bits());  // a rate of 0 takes no random numbers

  const auto drop = [&](std::uint64_t seed, std::uint64_t step) {
    Random random(seed, Stream::dropout, step);
    return Dropout(rate).forward(x, &random).value();
  };
  const std::vector<double> y = doubles(drop(4, 0));
  const auto kept = static_cast<double>(std::ranges::count(y, double{1.0f / 0.7f}));
  const auto dropped = static_cast<double>(std::ranges::count(y, 0.0));
  CHECK(kept + dropped == 100000);
  CHECK(dropped / 100000 == doctest::Approx(rate).epsilon(0.02));  // σ is 0.5 % of it
  CHECK(kept / 0.7 / 100000 == doctest::Approx(1).epsilon(0.01));
  CHECK(same_bits(drop(4, 0), drop(4, 0)));
  CHECK_FALSE(same_bits(drop(4, 0), drop(4, 1)));
  CHECK_FALSE(same_bits(drop(4, 0), drop(5, 0)));
  CHECK_THROWS_WITH_AS(Dropout(1).forward(x, &noise),
                       doctest::Contains("dropout: rate = 1 for x (100000,)"),
                       std::invalid_argument);
}

TEST_CASE("layers: a feed-forward layer has the chosen activation") {
  Random r = init();
  const Tensor x = normal({3, 4});
  const std::vector<std::pair<Activation, Tensor (*)(const Tensor&)>> rows = {
      {Activation::relu, relu},
      {Activation::gelu, gelu},
      {Activation::gelu_tanh, gelu_tanh},
      {Activation::silu, silu}};
  for (const auto& [activation, op] : rows) {
    FeedForward layer(4, r, {.hidden = 5, .activation = activation});
    randomised(layer, f64);
    const Tensor y = layer.contract.forward(op(layer.expand.forward(x)));
    CHECK(same_bits(layer.forward(x).value(), y.value()));

    FeedForward gated(4, r, {.hidden = 5, .activation = activation, .gated = true});
    randomised(gated, f64);
    const Tensor both = gated.expand.forward(x), gate = slice(both, 1, 0, 5);
    const Tensor z = gated.contract.forward(op(gate) * slice(both, 1, 5, 10));
    CHECK(distance(gated.forward(x).value(), z.value()) <= 1e-14);
  }
}

TEST_CASE(
    "layers: rotary embeddings on halves rotate column k with k + D/2, scaled as in Llama 3") {
  // Two rates: one with 2.5 periods in a context of 16, which is partly scaled, and one of a
  // quarter.
  const RotaryForm form{
      .pairs = RotaryPairs::halves, .base = 100, .scaling = RotaryScaling{.original_context = 16}};
  const double waves = 16 / (2 * std::numbers::pi), share = (waves - 1) / 3;
  const double a = 3 * (share + (1 - share) / 8), b = 3 * 0.1 / 8;
  const std::vector<double> x = {1, 0, 0, 1},
                            y = doubles(rotary(Array::of(x, {1, 4}), {.firsts = {3}, .form = form})
                                            .value()),
                            wanted = {std::cos(a), -std::sin(b), std::sin(a), std::cos(b)};
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == doctest::Approx(wanted[i]));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
