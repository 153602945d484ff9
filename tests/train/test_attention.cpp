#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "layers/multi_head_attention.hpp"
#include "tests/support/modules.hpp"
#include "tests/support/process.hpp"

// Attention that can be looked at: its weights, a worked example, and pictures of it.
namespace tapestry {
namespace {

Array numbers(const std::vector<double>& values, const Shape& shape) {
  return Array::of(values, shape);
}

TEST_SUITE_BEGIN("attention");

TEST_CASE("attention: its weights, times the values, are what the fused op gives") {
  constexpr std::int64_t B = 2, H = 2, T = 4, S = 6, D = 3;
  const Array q = normal({B, T, H * D}, 1), k = normal({B, S, H * D}, 2),
              v = normal({B, S, H * D}, 3);
  const Array padding = Array::of(Tokens{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1}, {B, S});
  const std::pair<const char*, AttentionOptions> rows[] = {
      {"all", {.heads = H}},
      {"causal", {.heads = H, .causal = true}},
      {"window", {.heads = H, .window = 2}},
      {"causal window", {.heads = H, .causal = true, .window = 2}},
      {"padding", {.heads = H, .key_padding = padding}},
      {"causal with padding", {.heads = H, .causal = true, .key_padding = padding}},
      {"additive", {.heads = H, .mask = normal({T, S}, 4)}},
      {"additive, one a head", {.heads = H, .mask = normal({H, 1, S}, 5)}},
      {"the first keys", {.heads = H, .causal = true, .keys = 5}},
      {"one head", {}},
  };
  for (const auto& [name, options] : rows) {
    CAPTURE(name);
    const std::int64_t heads = options.heads, width = H * D / heads;
    const std::int64_t keys = options.keys < 0 ? S : options.keys;
    const Array weights = attention_weights(q, k, options);
    CHECK(weights.shape() == Shape{B, heads, T, keys});
    const Tensor values =
        permute(reshape(slice(v, 1, 0, keys), {B, keys, heads, width}), {0, 2, 1, 3});
    const Tensor joined =
        reshape(permute(matmul(weights, values), {0, 2, 1, 3}), {B, T, heads * width});
    check_close(joined.value(), scaled_dot_product_attention(q, k, v, options).value(), 1e-13);
    const Array sums = sum(weights, {-1}).value();
    for (const double one : sums.values<double>()) CHECK(one == doctest::Approx(1));
  }
}

// README.md tells this example. Queries, keys and values are the tokens themselves, so every number
// can be found with a pocket calculator: exp(1/√2) = 2.0281, exp(2/√2) = 4.1133, exp(4/√2)
// = 16.919.
TEST_CASE("attention: three tokens of width 4 and two heads, by hand") {
  Random init(1, Stream::init);
  SelfAttention attention(4, init,
                          {.heads = 2, .input = {.bias = false}, .output = {.bias = false}});
  attention.convert(f64);
  const std::vector<double> identity = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  std::vector<double> thrice;
  for (int i = 0; i < 3; ++i) thrice.insert(thrice.end(), identity.begin(), identity.end());
  set(attention.query_key_value.weight, thrice);
  set(attention.output.weight, {1, 0, 1, 0, 0, 1, 0, 1, 1, 0, -1, 0, 0, 1, 0, -1});
  const Array x = numbers({1, 0, 0, 2,   // the
                           0, 1, 2, 0,   // cat
                           1, 1, 0, 0},  // sat
                          {1, 3, 4});
  AttentionRecorder recorder;
  const Array y = attention.forward(x).value();
  REQUIRE(recorder.entries.size() == 1);
  const Array weights = numbers({0.4011, 0.1978, 0.4011,   // head 0
                                 0.1978, 0.4011, 0.4011,   //
                                 0.2483, 0.2483, 0.5035,   //
                                 0.8943, 0.0529, 0.0529,   // head 1
                                 0.0529, 0.8943, 0.0529,   //
                                 0.3333, 0.3333, 0.3333},  //
                                {1, 2, 3, 3});
  check_close(recorder.entries[0].weights, weights, 5e-5);
  const Array expected = numbers({0.9079, 2.3875, 0.6965, -1.1897,  // h0 + h1, h0 - h1 of "the"
                                  2.3875, 0.9079, -1.1897, 0.6965,  // of "cat"
                                  1.4184, 1.4184, 0.0851, 0.0851},  // of "sat"
                                 {1, 3, 4});
  check_close(y, expected, 1e-4);

  const Array causal = attention.forward(x, {.causal = true}).value();
  const Array causal_weights = recorder.entries[1].weights;
  CHECK(causal_weights.values<double>()[0] == 1);
  CHECK(causal_weights.values<double>()[1] == 0);
  CHECK(causal_weights.values<double>()[3] == doctest::Approx(1 / (1 + 2.0281)).epsilon(1e-4));
  check_close(slice(causal, 1, 2, 3).value(), slice(y, 1, 2, 3).value(), 1e-15);
}

TEST_CASE("attention: a recorder sees the layers of its scope, with their paths") {
  Random init(1, Stream::init);
  const SelfAttention attention(6, init, {.heads = 3});
  const CrossAttention crossing(6, 4, init, {.heads = 3});
  Array x({2, 5, 6}), source({2, 7, 4});
  init.fill_normal(x, 0, 1);
  init.fill_normal(source, 0, 1);
  attention.forward(x);
  AttentionRecorder outer;
  attention.forward(x, {.causal = true});
  {
    AttentionRecorder inner;
    crossing.forward(x, source);
    REQUIRE(inner.entries.size() == 1);
    CHECK(inner.entries[0].weights.shape() == Shape{2, 3, 5, 7});
  }
  REQUIRE(outer.entries.size() == 1);
  CHECK(outer.entries[0].weights.shape() == Shape{2, 3, 5, 5});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
