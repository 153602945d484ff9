#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "tests/support/op_inputs.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ops");

TEST_CASE("ops: causal linear attention is the cumulative sum of its paper") {
  constexpr std::int64_t T = 200, F = 6, D = 5;
  const Array q = positive({1, 1, F, T}), k = positive({1, 1, F, T}), v = normal({1, T, D}),
              gate = normal({1, T, 1});
  const auto at = [](const Array& array, std::int64_t i) { return array.values<double>()[i]; };
  for (const bool gated : {false, true}) {
    std::vector<double> S(F * D), z(F), wanted;
    for (std::int64_t t = 0; t < T; ++t) {
      const double g = 1 / (1 + std::exp(-at(gate, t)));
      const double keep = gated ? g : 1, add = gated ? 1 - g : 1;
      for (std::int64_t f = 0; f < F; ++f) {
        const double feature = at(k, f * T + t);
        double& total = z[f];
        total = keep * total + add * feature;
        for (std::int64_t d = 0; d < D; ++d) {
          double& product = S[f * D + d];
          product = keep * product + add * feature * at(v, t * D + d);
        }
      }
      for (std::int64_t d = 0; d < D; ++d) {
        double above = 0, below = 0;
        for (std::int64_t f = 0; f < F; ++f) {
          above += at(q, f * T + t) * S[f * D + d];
          below += at(q, f * T + t) * z[f];
        }
        wanted.push_back(above / below);
      }
    }
    const Tensor y = linear_attention(q, k, v, gated ? Tensor(gate) : Tensor(), {.causal = true});
    CHECK(distance(y.value(), Array::of(wanted, {1, T, D})) <= 1e-12);
  }
}

TEST_CASE("ops: linear attention accepts gates of 0 and keys of very different scales") {
  constexpr std::int64_t T = 130;
  const std::vector<Array> inputs{positive({1, 1, 4, T}), positive({1, 1, 4, T}),
                                  normal({1, T, 3})};
  Array gate = normal({1, T, 1}), scales({1, 1, T}, f64);
  for (std::size_t t = 0; t < T; ++t) {
    if (t % 10 == 3) gate.mutable_values<double>()[t] = t % 20 == 3 ? -1e3 : 1e3;
    scales.mutable_values<double>()[t] = t % 10 == 5 ? 300 : -300.0 + static_cast<double>(t);
  }
  for (const DType dtype : {f32, f64})
    for (const bool scaled : {false, true}) {
      std::vector<Tensor> x;
      for (const Array& input : inputs) x.push_back(Tensor::variable(input.to(dtype)));
      const Tensor logits = Tensor::variable(gate.to(dtype));
      LinearAttentionOptions options{.causal = true};
      if (scaled) options.key_log_scales = scales.to(dtype);
      Tape tape;
      const Tensor y = linear_attention(x[0], x[1], x[2], logits, options);
      const Gradients gradients = tape.backward(sum(y));
      bool finite = true;
      for (const Array& array :
           {y.value(), gradients[x[0]], gradients[x[1]], gradients[x[2]], gradients[logits]})
        for (const double value : doubles(array)) finite &= std::isfinite(value);
      CHECK(finite);
      // A gate of 0 forgets all earlier values, and a key e^300 times the others dominates them.
      for (const std::int64_t t : scaled ? std::vector<std::int64_t>{0, 5, 25, 105}
                                         : std::vector<std::int64_t>{0, 3, 23, 103})
        CHECK(distance(slice(y.value(), 1, t, t + 1).value(), slice(x[2], 1, t, t + 1).value()) <=
              (dtype == f32 ? 1e-5 : 1e-12));
    }
}

TEST_CASE("ops: hidden keys do not change linear attention") {
  constexpr std::int64_t T = 140;
  Array padding = Array::zeros({1, T}, i32), spoiled_k = normal({1, 2, 3, T}),
        spoiled_v = normal({1, T, 4});
  const Array q = normal({1, 2, 3, T}), k = spoiled_k.clone(), v = spoiled_v.clone();
  for (std::int64_t s = 0; s < T; s += 3) {
    padding.mutable_values<std::int32_t>()[s] = 1;
    for (std::int64_t f = 0; f < 6; ++f) spoiled_k.mutable_values<double>()[f * T + s] = 1e6;
    for (std::int64_t c = 0; c < 4; ++c) spoiled_v.mutable_values<double>()[s * 4 + c] = -1e6;
  }
  const Array g = normal({1, T, 4});
  for (const DType dtype : {f32, f64})
    for (const bool causal : {false, true}) {
      const Function f = [=](In x) {
        return linear_attention(x[0], x[1], x[2], {},
                                {.causal = causal, .key_padding = padding, .floor = 0.1});
      };
      const Outcome clean = run(f, {q, k, v}, dtype, g),
                    spoiled = run(f, {q, spoiled_k, spoiled_v}, dtype, g);
      CHECK(distance(clean.y, spoiled.y) == 0);
      CHECK(distance(clean.gradients[0], spoiled.gradients[0]) == 0);
      const std::vector<double> dk = doubles(spoiled.gradients[1]),
                                dv = doubles(spoiled.gradients[2]);
      for (std::int64_t s = 0; s < T; s += 3) {
        for (std::int64_t f2 = 0; f2 < 6; ++f2) CHECK(dk[f2 * T + s] == 0);
        for (std::int64_t c = 0; c < 4; ++c) CHECK(dv[s * 4 + c] == 0);
      }
    }
}

TEST_CASE("ops: errors of linear attention name the op and the shapes") {
  const auto t = [](auto... dims) { return Tensor(Array::zeros(Shape{dims...})); };
  const auto t64 = [](auto... dims) { return Tensor(Array::zeros(Shape{dims...}, f64)); };
  const Tensor q = t(1, 2, 3, 5), k = t(1, 2, 3, 7), v = t(1, 7, 4);
  LinearAttentionState small(1, 2, 3, 1, f32);
  const auto refuses = [](const Tensor& queries, const Tensor& keys, const Tensor& values,
                          const Tensor& gate, const LinearAttentionOptions& options,
                          const std::string& part) {
    const std::string message =
        misuse_of([&] { linear_attention(queries, keys, values, gate, options); });
    CAPTURE(message);
    CHECK(message.starts_with("linear_attention: "));
    CHECK(message.find(part) != std::string::npos);
  };
  refuses(q, k, t(1, 7, 3), {}, {}, "q (1, 2, 3, 5), k (1, 2, 3, 7) and v (1, 7, 3)");
  refuses(q, t(1, 2, 4, 7), v, {}, {}, "q (1, 2, 3, 5), k (1, 2, 4, 7) and v (1, 7, 4)");
  refuses(q, t(1, 3, 3, 7), v, {}, {}, "q (1, 2, 3, 5), k (1, 3, 3, 7)");
  refuses(q, k, t(1, 6, 4), {}, {}, "(1, 6, 4)");
  refuses(q, k, v, {}, {.causal = true}, "causal attention of 5 queries to 7 keys");
  refuses(q, k, v, t(1, 7, 2), {}, "a gate needs causal attention");
  refuses(k, k, v, t(1, 7, 3), {.causal = true},
          "gate is float32 (1, 7, 3); expected float32 (1, 7, 2)");
  refuses(q, k, v, {}, {.key_padding = Array::zeros({1, 5}, i32)},
          "key_padding is int32 (1, 5); expected int32 (1, 7)");
  refuses(q, k, v, {}, {.key_log_scales = Array::zeros({1, 2, 5})},
          "key_log_scales is float32 (1, 2, 5); expected float32 (1, 2, 7)");
  refuses(q, k, v, {}, {.key_log_scales = Array::zeros({1, 2, 7}), .floor = 1},
          "floor = 1; expected 0 with key_log_scales");
  refuses(q, k, v, {}, {.floor = -1}, "floor = -1");
  refuses(q, k, t64(1, 7, 4), {}, {}, "float32 (1, 2, 3, 5) with float64 (1, 7, 4)");
  refuses(q, k, v, {}, {.state = &small}, "a state needs causal attention");
  refuses(k, k, v, {}, {.causal = true, .state = &small},
          "state is float32 (1, 2, 3, 2); expected float32 (1, 2, 3, 3)");
  CHECK(misuse_of([&] { sine_features(t(3)); }).starts_with("sine_features: x (3,)"));
}

TEST_CASE("ops: linear attention continues from a state, for chunks of any length") {
  constexpr std::int64_t T = 150;
  Array padding = Array::zeros({2, T}, i32);
  for (std::size_t i = 0; i < 2 * T; i += 7) padding.mutable_values<std::int32_t>()[i] = 1;
  const std::vector<Array> inputs{positive({2, 3, 5, T}), positive({2, 3, 5, T}), normal({2, T, 6}),
                                  normal({2, T, 3}), normal({2, 3, T})};
  const auto part = [](const Array& array, int axis, std::int64_t begin, std::int64_t end) {
    return slice(Tensor(array.to(f64)), axis, begin, end).value();
  };
  for (const DType dtype : {f32, f64})
    for (const bool gated : {false, true})
      for (const bool scaled : {false, true}) {
        const auto attend = [&](std::int64_t begin, std::int64_t end, LinearAttentionState* state) {
          LinearAttentionOptions options{.causal = true,
                                         .key_padding = part(padding, 1, begin, end).to(i32),
                                         .floor = scaled ? 0 : 0.5,
                                         .state = state};
          if (scaled) options.key_log_scales = part(inputs[4], 2, begin, end).to(dtype);
          return linear_attention(
              part(inputs[0], 3, begin, end).to(dtype), part(inputs[1], 3, begin, end).to(dtype),
              part(inputs[2], 1, begin, end).to(dtype),
              gated ? Tensor(part(inputs[3], 1, begin, end).to(dtype)) : Tensor(), options);
        };
        const Tensor whole = attend(0, T, nullptr);
        for (const std::vector<std::int64_t>& lengths : std::vector<std::vector<std::int64_t>>{
                 {T}, {64, 86}, {1, 1, 1, 1, 146}, {100, 1, 1, 48}, {0, 75, 0, 75}}) {
          LinearAttentionState state(2, 3, 5, 2, dtype);
          std::vector<Tensor> parts;
          std::int64_t t = 0;
          for (const std::int64_t length : lengths) {
            parts.push_back(attend(t, t + length, &state));
            t += length;
          }
          CHECK(distance(concat(parts, 1).value(), whole.value()) <= (dtype == f32 ? 1e-5 : 1e-12));
        }
      }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
