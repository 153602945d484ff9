#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/op_inputs.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ops");

// --- PyTorch's numbers ---

struct GoldenRow {
  std::string name;
  std::function<Tensor(In, const Golden&)> f;
  Strings inputs;
};

Tensor golden_attention(In x, const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(x[0], x[1], x[2], options);
}

TEST_CASE("ops: values and gradients equal PyTorch's") {
  const std::vector<GoldenRow> rows = {
      {"linear", [](In x, auto&) { return linear(x[0], x[1], x[2]); }, {"x", "weight", "bias"}},
      {"layer_norm",
       [](In x, auto&) { return layer_norm(x[0], x[1], x[2]); },
       {"x", "weight", "bias"}},
      {"gelu_erf", [](In x, auto&) { return gelu(x[0]); }, {"x"}},
      {"gelu_tanh", [](In x, auto&) { return gelu_tanh(x[0]); }, {"x"}},
      {"rms_norm", [](In x, auto&) { return rms_norm(x[0], x[1]); }, {"x", "weight"}},
      {"silu", [](In x, auto&) { return silu(x[0]); }, {"x"}},
      {"swiglu", [](In x, auto&) { return swiglu(x[0]); }, {"x"}},
      {"attention_grouped",
       [](In x, auto&) { return golden_attention(x, {.causal = true}); },
       {"q", "k", "v"}},
      {"rotary_halves",
       [](In x, auto&) {
         return rotary(x[0], {.head_width = 8,
                              .form = {.pairs = RotaryPairs::halves,
                                       .base = 100,
                                       .scaling = RotaryScaling{.original_context = 16}}});
       },
       {"x"}},
      {"softmax", [](In x, auto&) { return softmax(x[0]); }, {"x"}},
      {"log_softmax", [](In x, auto&) { return log_softmax(x[0]); }, {"x"}},
      {"attention_plain", [](In x, auto&) { return golden_attention(x); }, {"q", "k", "v"}},
      {"attention_causal",
       [](In x, auto&) { return golden_attention(x, {.causal = true}); },
       {"q", "k", "v"}},
      {"attention_padding",
       [](In x, auto& golden) { return golden_attention(x, {.key_padding = golden["padding"]}); },
       {"q", "k", "v"}},
      {"attention_additive",
       [](In x, auto& golden) {
         return golden_attention(x, {.mask = golden["mask"].to(x[0].dtype())});
       },
       {"q", "k", "v"}},
      {"convolution2d",
       [](In x, auto&) { return convolution2d(x[0], x[1], {.stride = 2, .padding = 1}); },
       {"x", "weight"}},
      {"convolution2d_plain",
       [](In x, auto&) { return convolution2d(x[0], x[1]); },
       {"x", "weight"}},
      {"transposed_convolution2d",
       [](In x, auto&) {
         return transposed_convolution2d(x[0], x[1],
                                         {.stride = 2, .padding = 1, .height = 7, .width = 6});
       },
       {"x", "weight"}},
      {"transposed_convolution2d_plain",
       [](In x, auto&) { return transposed_convolution2d(x[0], x[1], {.stride = 3}); },
       {"x", "weight"}},
  };
  for (const GoldenRow& row : rows)
    for (const DType dtype : {f32, f64}) {
      CAPTURE(row.name);
      INFO(std::string(to_string(dtype)));
      const double tolerance = dtype == f32 ? 1e-5 : 1e-10;
      const Golden golden(row.name);
      std::vector<Array> inputs;
      for (const std::string& input : row.inputs) inputs.push_back(golden[input]);
      const Outcome outcome =
          run([&](In x) { return row.f(x, golden); }, inputs, dtype, golden["g"]);
      CHECK(distance(outcome.y, golden["y"]) <= tolerance);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        CHECK(distance(outcome.gradients[i], golden["d" + row.inputs[i]]) <= tolerance);
    }
}

TEST_CASE("ops: cross_entropy equals PyTorch's") {
  const Golden golden("cross_entropy");
  for (const DType dtype : {f32, f64})
    for (const std::string suffix : {"", "_smoothed"}) {
      CAPTURE(suffix);
      INFO(std::string(to_string(dtype)));
      const double tolerance = dtype == f32 ? 1e-6 : 1e-10;
      const CrossEntropyOptions options{.label_smoothing = suffix.empty() ? 0 : 0.1};
      const Outcome outcome =
          run([&](In x) { return cross_entropy(x[0], golden["targets"], options); },
              {golden["logits"]}, dtype, Array::full({}, 1, dtype));
      CHECK(distance(outcome.y, golden["loss" + suffix]) <= tolerance);
      CHECK(distance(outcome.gradients[0], golden["dlogits" + suffix]) <= tolerance);
    }
}

// --- exact cases ---

// An op of exact numbers, with what PyTorch 2.15 computes for g = 1, 2, 3, ….
struct ExactRow {
  std::string torch;
  Function f;
  std::vector<Array> inputs;
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;
};

TEST_CASE("ops: indexing, stack and leaky_relu equal PyTorch's") {
  const Array x = Array::of(std::vector{1.5, -2., 0.5, -0.25, 3., -1.}, {2, 3});
  const Array elements = ints({2, 2, 0, 1}, {2, 2}), slices = ints({1, 1, 0}, {3});
  const Array choice = ints({1, 0, 0, 0, 0, 1}, {2, 3});
  const Array tens = Array::of(std::vector{10., 20., 30., 40.}, {2, 2});
  const Array powers = Array::of(std::vector{1., 2., 3., 10., 20., 30., 100., 200., 300.}, {3, 3});
  const std::vector<ExactRow> rows = {
      {"gather(x, 1, i)",
       [=](In v) { return gather(v[0], 1, elements); },
       {x},
       {0.5, 0.5, -0.25, 3},
       {{0, 0, 3, 3, 4, 0}}},
      {"index_select(x, 0, i)",
       [=](In v) { return gather(v[0], 0, slices); },
       {x},
       {-0.25, 3, -1, -0.25, 3, -1, 1.5, -2, 0.5},
       {{7, 8, 9, 5, 7, 9}}},
      {"scatter_add(x, 1, i, s)",
       [=](In v) { return scatter_add(v[0], 1, elements, v[1]); },
       {x, tens},
       {1.5, -2, 30.5, 29.75, 43, -1},
       {{1, 2, 3, 4, 5, 6}, {3, 3, 4, 5}}},
      {"index_add(x, 0, i, s)",
       [=](In v) { return scatter_add(v[0], 0, slices, v[1]); },
       {x, powers},
       {101.5, 198, 300.5, 10.75, 25, 32},
       {{1, 2, 3, 4, 5, 6}, {4, 5, 6, 4, 5, 6, 1, 2, 3}}},
      {"where(c, x, b)",
       [=](In v) { return where(choice, v[0], v[1]); },
       {x, row({7, 8, 9})},
       {1.5, 8, 9, 7, 8, -1},
       {{1, 0, 0, 0, 0, 6}, {4, 7, 3}}},
      {"stack([x, 2 x], 1)",
       [](In v) {
         return stack({v[0], v[0] * 2.0}, 1);
       },
       {x},
       {1.5, -2, 0.5, 3, -4, 1, -0.25, 3, -1, -0.5, 6, -2},
       {{9, 12, 15, 27, 30, 33}}},
      {"cat(x.split([1, 2], 1)[::-1], 1)",
       [](In v) {
         const auto parts = split(v[0], {1, 2}, 1);
         return concat({parts[1], parts[0]}, 1);
       },
       {x},
       {-2, 0.5, 1.5, 3, -1, -0.25},
       {{3, 1, 2, 6, 4, 5}}},
      {"cat(x.chunk(2, 1)[::-1], 1)",
       [](In v) {
         const auto parts = chunk(v[0], 2, 1);
         return concat({parts[1], parts[0]}, 1);
       },
       {x},
       {0.5, 1.5, -2, -1, -0.25, 3},
       {{2, 3, 1, 5, 6, 4}}},
      {"1 - 2 * x",
       [](In v) { return 1 - 2 * v[0]; },
       {x},
       {-2, 5, 0, 1.5, -5, 3},
       {{-2, -4, -6, -8, -10, -12}}},
      {"3 + (x / 2 - 1)",
       [](In v) { return 3 + (v[0] / 2 - 1); },
       {x},
       {2.75, 1, 2.25, 1.875, 3.5, 1.5},
       {{0.5, 1, 1.5, 2, 2.5, 3}}},
      {"leaky_relu(x, 0.25)",
       [](In v) { return leaky_relu(v[0], 0.25); },
       {x},
       {1.5, -0.5, 0.5, -0.0625, 3, -0.25},
       {{1, 0.5, 3, 1, 5, 1.5}}},
      {"leaky_relu([0, -0], 0.25)",
       [](In v) { return leaky_relu(v[0], 0.25); },
       {row({0, -0.})},
       {0, 0},
       {{0.25, 0.5}}},
  };
  for (const ExactRow& exact : rows)
    for (const DType dtype : {f32, f64}) {
      CAPTURE(exact.torch);
      const std::vector<Tensor> inputs(exact.inputs.begin(), exact.inputs.end());
      Array g(exact.f(inputs).shape(), f64);
      std::iota(g.mutable_values<double>().begin(), g.mutable_values<double>().end(), 1.0);
      const Outcome outcome = run(exact.f, exact.inputs, dtype, g);
      CHECK(doubles(outcome.y) == exact.y);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        CHECK(doubles(outcome.gradients[i]) == exact.gradients[i]);
    }
}

TEST_CASE("ops: where does not read what it does not choose") {
  const Array unknown = row({std::nan(""), infinity, 1}), known = row({2, 3, 4});
  const Outcome outcome = run(
      [](In v) {
        return where(ints({0, 0, 1}, {3}), v[0], v[1]);
      },
      {unknown, known}, f32, row({5, 6, 7}));
  CHECK(doubles(outcome.y) == std::vector<double>{2, 3, 1});
  CHECK(doubles(outcome.gradients[0]) == std::vector<double>{0, 0, 7});
  CHECK(doubles(outcome.gradients[1]) == std::vector<double>{5, 6, 0});
}

TEST_CASE("ops: the gradient of gather adds many float32 terms by halves, as long sums are") {
  constexpr std::int64_t count = 1 << 20;
  const Outcome outcome = run([=](In v) { return gather(v[0], 0, Array::zeros({count}, i32)); },
                              {row({1})}, f32, Array::full({count}, 0.1, f64));
  CHECK(doubles(outcome.gradients[0])[0] == doctest::Approx(count * 0.1).epsilon(2e-5));
}

TEST_CASE("ops: equal maxima share the gradient") {
  for (const DType dtype : {f32, f64}) {
    const Array x =
        Array::of(std::vector{1., 3., 3., 2., 2., 2., -infinity, -infinity, -infinity}, {3, 3});
    const Outcome rows = run([](In in) { return max(in[0], {1}); }, {x}, dtype, row({6, 6, 6}));
    CHECK(doubles(rows.y) == std::vector{3., 2., -infinity});
    CHECK(doubles(rows.gradients[0]) == std::vector<double>{0, 3, 3, 2, 2, 2, 2, 2, 2});
    const Outcome all = run([](In in) { return max(in[0]); }, {x}, dtype, Array::full({}, 1, f64));
    CHECK(doubles(all.gradients[0]) == std::vector<double>{0, 0.5, 0.5, 0, 0, 0, 0, 0, 0});
  }
}

TEST_CASE("ops: operators compute the ops of the same name") {
  const Tensor a = normal({2, 3}), b = normal({3});
  const std::vector<std::pair<Tensor, Tensor>> pairs = {
      {a + b, add(a, b)},    {a - b, subtract(a, b)},  {a * b, multiply(a, b)},
      {a / b, divide(a, b)}, {a * 2.5, scale(a, 2.5)}, {2.5 * a, scale(a, 2.5)},
      {-a, scale(a, -1)}};
  for (const auto& [by_operator, by_name] : pairs)
    CHECK(doubles(by_operator.value()) == doubles(by_name.value()));
  CHECK((a - b).value().values<double>()[4] ==
        a.value().values<double>()[4] - b.value().values<double>()[1]);
  CHECK((a / b).value().values<double>()[4] ==
        a.value().values<double>()[4] / b.value().values<double>()[1]);
}

TEST_CASE("ops: reshape shares the memory, and sums remove axes or keep them") {
  const Tensor x = normal({2, 3});
  CHECK(reshape(x, {3, -1}).shape() == Shape{3, 2});
  CHECK(reshape(x, {3, -1}).value().raw() == x.value().raw());
  CHECK(sum(x, {0}).shape() == Shape{3});
  CHECK(sum(x, {0}, Keep::yes).shape() == Shape{1, 3});
}

TEST_CASE("ops: reductions of empty arrays") {
  const Tensor empty = Array(Shape{0, 2}, f32);
  CHECK(sum(empty).item() == 0);
  CHECK(doubles(sum(empty, {0}).value()) == std::vector<double>{0, 0});
  CHECK(doubles(max(empty, {0}).value()) == std::vector<double>{-infinity, -infinity});
  CHECK(std::isnan(mean(empty).item()));
  const Array nothing(Shape{0, 4}, f32);
  CHECK(cross_entropy(nothing, Array(Shape{0}, i32)).item() == 0);
}

TEST_CASE("ops: dropout keeps the given share of elements and scales them") {
  const Array ones = Array::full({100, 1000}, 1, f32);
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    Random random(3, Stream::dropout);
    const std::vector<double> y = doubles(dropout(ones, rate, random).value());
    const auto kept =
        static_cast<double>(std::ranges::count_if(y, [](double v) { return v != 0; }));
    CHECK(std::ranges::all_of(
        y, [&](double v) { return v == 0 || v == doctest::Approx(1 / (1 - rate)).epsilon(1e-6); }));
    CHECK(kept / 1e5 == doctest::Approx(1 - rate).epsilon(0.01));
    const Array again = dropout(ones, rate, random).value();
    CHECK((rate == 0 || doubles(again) != y));
    Random same(3, Stream::dropout);
    CHECK(doubles(dropout(ones, rate, same).value()) == y);
  }
}

// --- extreme values ---

TEST_CASE("ops: extreme values stay finite and exact") {
  for (const DType dtype : {f32, f64}) {
    INFO(std::string(to_string(dtype)));
    const auto values = [&](Tensor (*op)(const Tensor&), const std::vector<double>& x) {
      return doubles(op(row(x, dtype)).value());
    };
    CHECK(values(softmax, {1e4, -1e4, 1e4}) == std::vector<double>{0.5, 0, 0.5});
    CHECK(values(softmax, {-1e4, -infinity}) == std::vector<double>{1, 0});
    CHECK(values(softmax, {-infinity, -infinity}) == std::vector<double>{0, 0});
    CHECK(values(log_softmax, {1e4, -1e4}) == std::vector<double>{0, -2e4});
    CHECK(values(sigmoid, {-1e4, 1e4, 0, -infinity, infinity}) ==
          std::vector<double>{0, 1, 0.5, 0, 1});
    CHECK(values(sigmoid, {-80})[0] == doctest::Approx(std::exp(-80.)).epsilon(1e-6));
    CHECK(values(tanh, {-1e4, 1e4, infinity, -infinity}) == std::vector<double>{-1, 1, 1, -1});
    CHECK(values(relu, {-infinity, infinity, -0., 0}) == std::vector<double>{0, infinity, 0, 0});
    CHECK(doubles(leaky_relu(row({-infinity, infinity}, dtype), 0.5).value()) ==
          std::vector<double>{-infinity, infinity});
    CHECK(values(gelu, {-100, 100}) == std::vector<double>{0, 100});
    CHECK(values(gelu_tanh, {-100, 100}) == std::vector<double>{0, 100});
    CHECK(values(silu, {-1000, 1000, infinity}) == std::vector<double>{0, 1000, infinity});
    CHECK(values(exp, {-infinity, infinity, 0}) == std::vector<double>{0, infinity, 1});
    CHECK(values(log, {0, infinity, 1}) == std::vector<double>{-infinity, infinity, 0});
    const std::vector<double> bce = doubles(
        binary_cross_entropy(row({100, -100, 100, -100}, dtype), row({1, 0, 0, 1}, dtype)).value());
    CHECK(bce[0] == doctest::Approx(std::exp(-100.)).epsilon(1e-4));
    CHECK(bce[1] == doctest::Approx(std::exp(-100.)).epsilon(1e-4));
    CHECK((bce[2] == 100 && bce[3] == 100));
    const Array logits = Array::of(std::vector{1e4, -1e4}, {1, 2}).to(dtype);
    CHECK(cross_entropy(logits, Array::of<std::int32_t>({0}, {1})).item() == 0);
    CHECK(cross_entropy(logits, Array::of<std::int32_t>({1}, {1})).item() == 2e4);
    for (Tensor (*op)(const Tensor&) :
         {exp, sin, cos, tanh, sigmoid, relu, gelu, gelu_tanh, silu, log, sqrt})
      CHECK(std::isnan(values(op, {std::nan("")})[0]));
  }
}

TEST_CASE("bug: float32 softmax, log_softmax and cross_entropy lost digits to large logits") {
  const std::vector<double> logits{10000, 10001, 9998.5};
  const Array x = Array::of(logits, {1, 3});
  const Array shifted = Array::of(std::vector{0., 1., -1.5}, {1, 3});
  const Array target = Array::of<std::int32_t>({2}, {1});
  const std::vector<std::pair<std::string, Function>> ops = {
      {"softmax", [](In in) { return softmax(in[0]); }},
      {"log_softmax", [](In in) { return log_softmax(in[0]); }},
      {"cross_entropy", [&](In in) { return cross_entropy(in[0], target); }},
      {"smoothed", [&](In in) { return cross_entropy(in[0], target, {.label_smoothing = 0.1}); }}};
  for (const auto& [name, f] : ops) {
    CAPTURE(name);
    const Array g = normal(f({shifted}).shape());
    const Outcome large = run(f, {x}, f32, g), exact = run(f, {shifted}, f64, g);
    CHECK(distance(large.y, exact.y) <= 1e-6);
    CHECK(distance(large.gradients[0], exact.gradients[0]) <= 1e-6);
  }
}

TEST_CASE("ops: a query without keys has zeros as output and gradient") {
  const auto hide_query = infinite_where({70, 130}, [](auto t, auto) { return t == 1 || t == 69; });
  Array nobody = Array::zeros({2, 130}, i32);
  std::ranges::fill(nobody.mutable_values<std::int32_t>().first(130), 1);
  for (const DType dtype : {f32, f64}) {
    const std::vector<Array> inputs{normal({2, 70, 5}), normal({2, 130, 5}), normal({2, 130, 5})};
    const auto with = [](const AttentionOptions& options) {
      return [options](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], options); };
    };
    const auto zero = [](const Array& array, std::size_t begin, std::size_t end) {
      const std::vector<double> x = doubles(array);
      return std::all_of(x.begin() + static_cast<std::ptrdiff_t>(begin),
                         x.begin() + static_cast<std::ptrdiff_t>(end),
                         [](double v) { return v == 0; });
    };
    const auto finite = [](const Outcome& outcome) {
      bool all = true;
      for (const Array& array :
           {outcome.y, outcome.gradients[0], outcome.gradients[1], outcome.gradients[2]})
        for (const double x : doubles(array)) all &= std::isfinite(x);
      return all;
    };
    const Array g = normal({2, 70, 5});
    const Outcome masked = run(with({.mask = hide_query.to(dtype)}), inputs, dtype, g);
    CHECK(finite(masked));
    for (const std::size_t query : {1u, 69u, 71u, 139u}) {
      CHECK(zero(masked.y, query * 5, query * 5 + 5));
      CHECK(zero(masked.gradients[0], query * 5, query * 5 + 5));
    }
    CHECK_FALSE(zero(masked.y, 0, 5));

    const Outcome padded = run(with({.key_padding = nobody}), inputs, dtype, g);
    CHECK(finite(padded));
    CHECK(zero(padded.y, 0, 350));
    CHECK_FALSE(zero(padded.y, 350, 355));
    CHECK(zero(padded.gradients[0], 0, 350));
    for (const Array& gradient : {padded.gradients[1], padded.gradients[2]}) {
      CHECK(zero(gradient, 0, 650));
      CHECK_FALSE(zero(gradient, 650, 655));
    }

    // T > S: the first T - S queries precede every key.
    const Outcome causal =
        run(with({.causal = true}), {inputs[1], inputs[0], inputs[0]}, dtype, normal({2, 130, 5}));
    CHECK(finite(causal));
    CHECK(zero(causal.y, 0, 300));
    CHECK(zero(causal.gradients[0], 0, 300));
    CHECK_FALSE(zero(causal.y, 300, 305));

    const Outcome none = run(with({.keys = 0}), inputs, dtype, g);
    CHECK(finite(none));
    for (const Array& array : {none.y, none.gradients[0], none.gradients[1], none.gradients[2]})
      CHECK(zero(array, 0, array.size()));

    const Outcome row_of_infinity =
        run([](In x) { return softmax(x[0]); }, {Array::full({2, 3}, -infinity, f64)}, dtype,
            normal({2, 3}));
    CHECK(zero(row_of_infinity.y, 0, 6));
    CHECK(zero(row_of_infinity.gradients[0], 0, 6));
  }
}

TEST_CASE("bug: attention returned zeros for a query of NaN") {
  for (const DType dtype : {f32, f64})
    for (const bool causal : {false, true}) {
      Array q = normal({1, 70, 3}, f64);
      q.mutable_values<double>()[9] = std::nan("");
      const Array k = normal({1, 70, 3}, dtype);
      const std::vector<double> y =
          doubles(scaled_dot_product_attention(q.to(dtype), k, k, {.causal = causal}).value());
      CHECK((std::isnan(y[9]) && std::isnan(y[10]) && std::isnan(y[11])));
      CHECK((std::isfinite(y[8]) && std::isfinite(y[12])));
    }
}

TEST_CASE("ops: attention with numbers of keys equals attention of each example alone") {
  const Array q = normal({3, 2, 4}), k = normal({3, 150, 4}), v = normal({3, 150, 4});
  const std::vector<std::int32_t> counts = {150, 2, 65};
  for (const DType dtype : {f32, f64})
    for (const bool causal : {false, true}) {
      const Tensor all = scaled_dot_product_attention(
          q.to(dtype), k.to(dtype), v.to(dtype),
          {.heads = 2, .causal = causal, .key_counts = Array::of(counts, {3})});
      for (std::int64_t b = 0; b < 3; ++b) {
        const auto own = [&](const Array& x) { return x.select({b}).to(dtype); };
        const Tensor alone = scaled_dot_product_attention(
            own(q), own(k), own(v),
            {.heads = 2, .causal = causal, .keys = counts[static_cast<std::size_t>(b)]});
        CHECK(same_bits(all.value().select({b}), alone.value()));
      }
    }
  const Tensor none =
      scaled_dot_product_attention(q, k, v, {.key_counts = Array::zeros({3}, DType::int32)});
  CHECK(distance(none.value(), Array::zeros({3, 2, 4}, f64)) == 0);
}

TEST_CASE("bug: packed_self_attention left the gradient of keys past `keys` unset") {
  const auto inputs = std::vector{normal({1, 4, 6})};
  for (int i = 0; i < 8; ++i) Array::full({1, 4, 6}, 7, f64);  // memory that the pool may return
  const Outcome outcome = run([](In x) { return packed_self_attention(x[0], {.keys = 2}); }, inputs,
                              f64, normal({1, 4, 2}));
  const std::vector<double> d = doubles(outcome.gradients[0]);
  for (const std::size_t t : {2u, 3u})
    for (std::size_t c = 2; c < 6; ++c) CHECK(d[t * 6 + c] == 0);
}

// Returns ((i · factor) mod modulus - shift) / 4 for the elements of (4, 3).
Array quarters(std::int64_t factor, std::int64_t modulus, std::int64_t shift) {
  Array array({4, 3}, f64);
  for (std::int64_t i = 0; i < 12; ++i)
    array.mutable_values<double>()[i] = static_cast<double>(i * factor % modulus - shift) / 4;
  return array;
}

TEST_CASE("negative_sampling: values and gradients of PyTorch's logsigmoid") {
  const Array contexts = ints({1, 2, -1, 0, 3, 3, 1, -1, -1}, {3, 3}),
              targets = ints({3, 0, -1, 2, 1, 1, -1, 0, 1}, {3, 3});
  for (const DType dtype : {f32, f64}) {
    const Outcome found =
        run([&](In x) { return negative_sampling(x[0], x[1], contexts, targets); },
            {quarters(7, 11, 5), quarters(5, 13, 6)}, dtype, Array::full({}, 1, f64));
    const double tolerance = dtype == f32 ? 1e-6 : 1e-9;
    check_close(found.y, Array::full({}, 4.057051466051037, f64), tolerance);
    check_close(
        found.gradients[0],
        row({-1.2204514979, 0.2022900852, 2.1597101726, -0.0955724914, -0.3836974638, 0.2843762234,
             -0.11378727, -0.419991171, 0.3164741556, 0.0140814444, -0.3396971378, 1.0546435189})
            .reshaped({4, 3}),
        tolerance);
    check_close(
        found.gradients[1],
        row({0.1555019228, 0.0159287486, -0.1236444257, -1.4372421789, 0.5876398704, -0.9699298359,
             -0.1977665534, 0.0522124792, 0.7546117849, -0.688590016, -0.073553743, 0.5414825299})
            .reshaped({4, 3}),
        tolerance);
  }
}

TEST_CASE("negative_sampling: the composition, also of words that occur more than 512 times") {
  constexpr std::int64_t N = 700, W = 4, K = 3, V = 6;
  const Array contexts = random_tokens({N, W}, V), targets = random_tokens({N, K}, V, 3);
  Array labels = Array::zeros({N, W, K}, f64);
  for (std::int64_t i = 0; i < N * W; ++i) labels.mutable_values<double>()[i * K] = 1;
  const auto composed = [&](In x) {
    const Tensor scores =
        matmul(embedding(x[0], contexts), embedding(x[1], targets), {.transpose_b = true});
    return sum(binary_cross_entropy(scores, labels.to(scores.dtype())));
  };
  const auto fused = [&](In x) { return negative_sampling(x[0], x[1], contexts, targets); };
  const std::vector<Array> inputs = {normal({V, 37}), normal({V, 37})};
  for (const DType dtype : {f32, f64}) {
    const Array one = Array::full({}, 0.5, f64);
    const Outcome found = run(fused, inputs, dtype, one),
                  wanted = run(composed, inputs, dtype, one);
    const double tolerance = dtype == f32 ? 1e-4 : 1e-10;
    CHECK(distance(found.y, wanted.y) <= tolerance);
    for (const std::size_t table : {0, 1})
      CHECK(distance(found.gradients[table], wanted.gradients[table]) <= tolerance);
  }
}

TEST_CASE("negative_sampling: refuses other shapes and words") {
  const Tensor table = normal({4, 3});
  const Array words = ints({0, 1}, {1, 2});
  const auto refused = [](const auto& call, const std::string& part) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(part.c_str()), std::invalid_argument);
  };
  refused(
      [&] {
        negative_sampling(table, normal({5, 3}), words, words);
      },
      "shapes (4, 3) and (5, 3)");
  refused(
      [&] {
        negative_sampling(table, table, words, ints({0, 1}, {2, 1}));
      },
      "expected (V, C) with int32 (N, W) and (N, 1 + K)");
  refused(
      [&] {
        negative_sampling(table, table, ints({0, 4}, {1, 2}), words);
      },
      "contexts with word 4; expected -1 to 3");
  refused(
      [&] {
        negative_sampling(table, table, words, ints({-2}, {1, 1}));
      },
      "targets with word -2");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
