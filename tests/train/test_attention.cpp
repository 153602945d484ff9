#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "layers/multi_head_attention.hpp"
#include "tests/support/modules.hpp"
#include "tests/support/process.hpp"

// Tests recorded attention: weights, a worked example, and figures.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("attention");

TEST_CASE("attention: recorded weights times the values equal the fused op") {
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

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: attention to a translation that fills a context of learned positions") {
  // One step trains no translation to end.
  must(
      run("train dates --out full model.positions=learned data.examples=100 data.held_back=4 "
          "train.steps=1 train.batch_size=4"));
  CHECK(must(run("attention full --prompt 1.2.1979 --out map.svg")).out.starts_with("map.svg"));
  must(run("report full --out page.html"));
  check_says(read("page.html"), {"alignments"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
