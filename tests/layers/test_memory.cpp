#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "layers/gru.hpp"
#include "layers/lstm.hpp"
#include "layers/models/recurrent_network.hpp"
#include "tests/support/layer_table.hpp"
#include "tests/support/memories.hpp"

namespace tapestry {
namespace {

// The next state of a recurrent layer: x_t (B, C), h_(t-1) (B, H) -> h_t (B, H).
Tensor step(const Recurrent& layer, const Tensor& x, const Tensor& state) {
  return tanh(layer.input.forward(x) + layer.hidden.forward(state));
}

}  // namespace

std::vector<LayerRow> memory_layers() {
  Random r = init();
  const Array x = normal({2, 4, 6}), state = normal({2, 5}), one = normal({2, 1, 6});
  const Array tokens = ints({4, 0, 2, 4, 4, 1}, {2, 3});
  const Array symbols = ints({4, 0, 2, 4, 4, 1, 0, 0, 3, 1, 2, 1}, {2, 3, 2});
  const auto parts = [](const Recurrent& layer, In in) {
    const Tensor first = layer.forward(slice(in[0], 1, 0, 3), in[1]);
    const Tensor before = reshape(slice(first, 1, 2, 3), {2, 5});
    return step(layer, reshape(slice(in[0], 1, 3, 4), {2, 6}), before);
  };
  std::vector<LayerRow> rows = {
      make_row("Recurrent", Recurrent(6, 5, r), forward, {x}),
      make_row("Recurrent: no bias", Recurrent(6, 5, r, false), forward, {x}),
      make_row("Recurrent: initial", Recurrent(6, 5, r), cross, {x, state}),
      make_row("Recurrent: a step after others", Recurrent(6, 5, r), parts, {x, state}),
      make_row("Lstm", Lstm(6, 5, r), forward, {x}),
      make_row("Lstm: no bias", Lstm(6, 5, r, false), forward, {x}),
      make_row("Lstm: initial", Lstm(6, 5, r), cross, {x, normal({2, 10})}),
      make_row("Gru", Gru(6, 5, r), forward, {x}),
      make_row("Gru: no bias", Gru(6, 5, r, false), forward, {x}),
      make_row("Gru: initial", Gru(6, 5, r), cross, {x, state}),
      make_row(
          "RecurrentStack",
          RecurrentStack({.kind = RecurrentKind::gru, .layers = 2, .inputs = 6, .width = 4}, r),
          forward, {x}),
      make_row("CompositeSum", CompositeSum(6, r), forward, {x}),
      make_row("ExponentialForgetting", ExponentialForgetting(6, r, {}), forward, {x}),
      make_row("ExponentialForgetting: learned",
               ExponentialForgetting(6, r, {.gamma = 0.7, .learn = true}), forward, {x}),
      make_row("RecurrentMemory", RecurrentMemory(6, r), forward, {x}),
      make_row("ForgettingGate", ForgettingGate(6, r), forward, {x}),
      make_row("SigmoidAttention", SigmoidAttention(6, r), forward, {x}),
      make_row("SoftmaxAttention", SoftmaxAttention(6, r), forward, {x}),
      make_row("LinearAttention", LinearAttention(6, r), forward, {x}),
      make_row("QueryKeyMemory", QueryKeyMemory(6, r), forward, {x}),
      make_row("QueryKeyMemory: one element", QueryKeyMemory(6, r), forward, {one}),
      make_row("MultiHeadMemory", MultiHeadMemory(6, 2, r), forward, {x}),
  };
  for (const auto& [kind, name] : memory_kinds)
    rows.push_back(make_row(fmt::format("MemoryNetwork: {}", name),
                            MemoryNetwork({.vocabulary = 5,
                                           .classes = 3,
                                           .hidden = 7,
                                           .memory = {.kind = kind, .width = 4, .heads = 2}},
                                          r),
                            [symbols](const MemoryNetwork& model, In) {
                              return cross_entropy(model.forward(symbols), ints({2, 0}, {2}));
                            },
                            {}));
  rows.push_back(
      make_row("MemoryRegressor",
               MemoryRegressor(
                   {.inputs = 6, .memory = {.kind = MemoryKind::linear_attention, .width = 4}}, r),
               forward, {x}));
  for (const bool tied : {false, true})
    for (const double rate : {0.0, 0.2})
      rows.push_back(make_row(
          fmt::format("RecurrentNetwork: {}tied, dropout {}", tied ? "" : "un", rate),
          RecurrentNetwork({.vocabulary = 5,
                            .layers = 2,
                            .width = 4,
                            .dropout = rate,
                            .bias = !tied,
                            .tied_embeddings = tied},
                           r),
          [tokens](const RecurrentNetwork& model, In) {
            Random noise(1, Stream::dropout);
            return cross_entropy(model.forward(tokens, &noise), ints({1, 2, 0, 3, -1, 4}, {2, 3}));
          },
          {}));
  for (const RecurrentKind kind : {RecurrentKind::lstm, RecurrentKind::gru})
    rows.push_back(
        make_row(fmt::format("RecurrentNetwork: {}", kind == RecurrentKind::lstm ? "LSTM" : "GRU"),
                 RecurrentNetwork({.vocabulary = 5, .layers = 2, .width = 4, .kind = kind}, r),
                 [tokens](const RecurrentNetwork& model, In) {
                   return cross_entropy(model.forward(tokens), ints({1, 2, 0, 3, -1, 4}, {2, 3}));
                 },
                 {}));
  return rows;
}

namespace {

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: every memory computes its equation") {
  constexpr std::int64_t B = 2, T = 5, C = 6;
  Random r = init();
  const Tensor x = normal({B, T, C});
  const auto at = [](const Tensor& y, std::int64_t t) {
    return reshape(slice(y, 1, t, t + 1), {y.dim(0), y.dim(2)});
  };
  const auto weighted = [&](const Tensor& weights, const Tensor& values) {  // (B, T, 1), (B, T, C)
    return sum(weights * values, {1});
  };
  const auto check = [&](const Memory& memory, const Tensor& wanted) {
    CHECK(memory.forward(x).shape() == Shape{B, C});
    CHECK(distance(memory.forward(x).value(), wanted.value()) <= 1e-12);
  };

  CompositeSum composite(C, r);
  randomised(composite, f64);
  check(composite, sum(composite.value.forward(x), {1}));

  for (const bool learn : {false, true}) {
    ExponentialForgetting forgetting(C, r, {.gamma = 0.8, .learn = learn});
    randomised(forgetting, f64);
    Tensor gamma = Array::full({}, 0.8, f64), wanted = Array::zeros({B, C}, f64);
    if (learn) gamma = sigmoid(*forgetting.decay);
    const Tensor values = forgetting.value.forward(x);
    for (std::int64_t t = 0; t < T; ++t) wanted = gamma * wanted + at(values, t);
    check(forgetting, wanted);
  }

  RecurrentMemory recurrent(C, r);
  randomised(recurrent, f64);
  Tensor state = Array::zeros({B, C}, f64);
  for (std::int64_t t = 0; t < T; ++t) state = step(recurrent.network, at(x, t), state);
  check(recurrent, state);

  ForgettingGate gated(C, r);
  randomised(gated, f64);
  state = Array::zeros({B, C}, f64);
  for (std::int64_t t = 0; t < T; ++t)
    state = sigmoid(gated.gate.forward(at(x, t))) * state + gated.value.forward(at(x, t));
  check(gated, state);

  SigmoidAttention sigmoids(C, r);
  randomised(sigmoids, f64);
  check(sigmoids, weighted(sigmoid(sigmoids.score.forward(x)), sigmoids.value.forward(x)));

  SoftmaxAttention softmaxes(C, r);
  randomised(softmaxes, f64);
  const Tensor scores = exp(softmaxes.score.forward(x));
  check(softmaxes, weighted(scores / sum(scores, {1}, Keep::yes), softmaxes.value.forward(x)));

  QueryKeyMemory query_key(C, r);
  randomised(query_key, f64);
  const Tensor q = reshape(query_key.attention.query.forward(at(x, T - 1)), {B, 1, C});
  const Tensor agreement =
      exp(sum(q * query_key.attention.key.forward(x), {2}, Keep::yes) * (1 / std::sqrt(6.0)));
  check(query_key,
        weighted(agreement / sum(agreement, {1}, Keep::yes), query_key.attention.value.forward(x)));

  LinearAttention linear(C, r);
  randomised(linear, f64);
  const Tensor question = reshape(linear.attention.query.forward(at(x, T - 1)), {B, 1, C});
  const Tensor products = sum(question * linear.attention.key.forward(x), {2}, Keep::yes);
  check(linear, weighted(products * (1.0 / T), linear.attention.value.forward(x)));

  MultiHeadMemory heads(C, 2, r);
  randomised(heads, f64);
  check(heads, at(heads.attention.forward(x, x), T - 1));
}

TEST_CASE("layers: a memory reports the weights that it used") {
  constexpr std::int64_t B = 2, T = 5, C = 6;
  Random r = init();
  const Tensor x = normal({B, T, C});
  for (const auto& row : memory_kinds) {
    CAPTURE(row.second);
    const MemoryKind kind = row.first;
    const auto memory = make_memory({.kind = kind, .width = C, .heads = 3}, r);
    randomised(*memory, f64);
    const Tensor weights = memory->weights(x);
    const bool attends = kind >= MemoryKind::sigmoid_attention;
    REQUIRE(weights.value().empty() == !attends);
    if (!attends) continue;
    const std::int64_t H = kind == MemoryKind::multi_head ? 3 : 1;
    REQUIRE(weights.shape() == Shape{B, H, T});
    if (kind != MemoryKind::sigmoid_attention && kind != MemoryKind::linear_attention)
      for (const double total : doubles(sum(weights, {2}).value()))
        CHECK(total == doctest::Approx(1));
  }
  // The memory returns Σ w v of each head.
  QueryKeyMemory one(C, r);
  randomised(one, f64);
  const Tensor values = one.attention.value.forward(x);
  CHECK(distance(matmul(one.weights(x), values).value().reshaped({B, C}), one.forward(x).value()) <=
        1e-12);
  MultiHeadMemory three(C, 3, r);
  randomised(three, f64);
  const Tensor packed = three.attention.project(x).value();
  const Tensor split = permute(reshape(packed, {B, T, 3, C / 3}), {0, 2, 1, 3});  // (B, H, T, D)
  const Tensor mixed = matmul(reshape(three.weights(x), {B, 3, 1, T}), split);    // (B, H, 1, D)
  CHECK(distance(three.attention.output.forward(reshape(mixed, {B, C})).value(),
                 three.forward(x).value()) <= 1e-12);
}

// The construction of von Oswald et al. 2023 (arXiv 2212.07677, proposition 1), from any w: keys
// and queries are the inputs x, the value of an item is its residual y - w·x, and the item of the
// question has the residual 0.
TEST_CASE("layers: a layer of linear attention is a step of gradient descent") {
  constexpr std::int64_t B = 3, N = 7, D = 4;
  constexpr double rate = 0.7;
  Random r = init();
  for (const DType dtype : {f32, f64}) {
    const Tensor x = normal({B, N, D}, dtype), y = normal({B, N, 1}, dtype),
                 question = normal({B, 1, D}, dtype), w = normal({D, 1}, dtype);
    LinearAttention layer(D + 1, r);
    layer.convert(dtype);
    std::vector<double> inputs((D + 1) * (D + 1)), residual = inputs;
    for (std::int64_t d = 0; d < D; ++d) {
      inputs[d * (D + 2)] = 1;
      residual[D * (D + 1) + d] = -doubles(w.value())[d];
    }
    residual.back() = 1;
    set(layer.attention.query.weight, inputs);
    set(layer.attention.key.weight, inputs);
    set(layer.attention.value.weight, residual);
    const Tensor items = concat({concat({x, y}, 2), concat({question, matmul(question, w)}, 2)}, 1);
    const double scale = rate * (N + 1) / N;
    const Tensor update = slice(layer.forward(items), 1, D, D + 1) * scale;

    for (std::int64_t b = 0; b < B; ++b) {
      const auto of = [&](const Tensor& each) {
        return reshape(slice(each, 0, b, b + 1), {each.dim(1), each.dim(2)});
      };
      Parameter weight(w.value(), Role::weight);
      Tape tape;
      const Tensor error = matmul(of(x), weight.tensor) - of(y);
      const Gradients gradients = tape.backward(sum(error * error) * (0.5 / N));
      const Tensor stepped = w - Tensor(gradients[weight]) * rate;
      const Tensor found = matmul(of(question), w) + slice(update, 0, b, b + 1);
      CHECK(distance(found.value(), matmul(of(question), stepped).value()) <=
            (dtype == f32 ? 1e-5 : 1e-12));
    }
  }
}

TEST_CASE("layers: memories forget as their equations say") {
  Random r = init();
  const Array late = normal({1, 1, 4}, 1), early = normal({1, 1, 4}, 2),
              other = normal({1, 6, 4}, 3);
  const auto kept = [&](const Memory& memory) {  // of the first element after six more
    const Tensor a = memory.forward(concat({early, other, late}, 1));
    const Tensor b = memory.forward(concat({-Tensor(early), other, late}, 1));
    return distance(a.value(), b.value());
  };
  CompositeSum everything(4, r);
  randomised(everything, f64);
  ExponentialForgetting little(4, r, {.gamma = 0.1});
  randomised(little, f64);
  CHECK(kept(everything) > 0.1);
  CHECK(kept(little) < 1e-5);
  // Attention does not depend on the age of a pair.
  QueryKeyMemory attention(4, r);
  randomised(attention, f64);
  CHECK(distance(attention.forward(concat({early, other, late}, 1)).value(),
                 attention.forward(concat({other, early, late}, 1)).value()) <= 1e-12);
}

TEST_CASE("layers: a recurrent layer gives the same in steps, in parts and at once") {
  constexpr std::int64_t B = 3, T = 7;
  Random r = init();
  for (const DType dtype : {f32, f64}) {
    Recurrent layer(5, 4, r);
    randomised(layer, dtype);
    const Tensor x = normal({B, T, 5}, dtype), initial = normal({B, 4}, dtype);
    for (const Tensor& start : {Tensor(), initial}) {
      const Tensor whole = layer.forward(x, start);
      Tensor state = start.value().empty() ? Tensor(Array::zeros({B, 4}, dtype)) : start;
      std::vector<Tensor> states;
      for (std::int64_t t = 0; t < T; ++t) {
        state = step(layer, reshape(slice(x, 1, t, t + 1), {B, 5}), state);
        states.push_back(reshape(state, {B, 1, 4}));
      }
      CHECK(distance(concat(states, 1).value(), whole.value()) <= (dtype == f32 ? 1e-6 : 1e-14));
      const Tensor first = layer.forward(slice(x, 1, 0, 3), start);
      const Tensor rest = layer.forward(slice(x, 1, 3, T), reshape(slice(first, 1, 2, 3), {B, 4}));
      CHECK(distance(concat({first, rest}, 1).value(), whole.value()) <=
            (dtype == f32 ? 1e-6 : 1e-14));
    }
  }
}

TEST_CASE("layers: layers of LSTM and GRU give the same in steps, in parts and at once") {
  constexpr std::int64_t B = 3, T = 7;
  Random r = init();
  Lstm lstm(5, 4, r);
  Gru gru(5, 4, r);
  for (RecurrentLayer* layer :
       {static_cast<RecurrentLayer*>(&lstm), static_cast<RecurrentLayer*>(&gru)})
    for (const DType dtype : {f32, f64}) {
      randomised(*layer, dtype);
      const double tolerance = dtype == f32 ? 1e-6 : 1e-14;
      const Tensor x = normal({B, T, 5}, dtype),
                   start = normal(layer->zero_state(B).shape(), dtype);
      Tensor after;
      const Tensor whole = layer->forward(x, start, &after);
      for (const std::int64_t length : {1, 3}) {
        Tensor state = start;
        std::vector<Tensor> parts;
        for (std::int64_t t = 0; t < T; t += length)
          parts.push_back(layer->forward(slice(x, 1, t, std::min(t + length, T)), state, &state));
        CHECK(distance(concat(parts, 1).value(), whole.value()) <= tolerance);
        CHECK(distance(state.value(), after.value()) <= tolerance);
      }
      layer->forward(slice(x, 1, 0, 0), start, &after);
      CHECK(same_bits(after.value(), start.value()));
      CHECK(distance(layer->forward(x).value(), layer->forward(x, layer->zero_state(B)).value()) ==
            0);
    }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
