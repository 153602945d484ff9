#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "tests/support/modules.hpp"
#include "train/generate/generate.hpp"

// Texts that are written together, against the same ones alone.
namespace tapestry {
namespace {

// More than are read together, of many lengths.
std::vector<Request> requests(std::int64_t count, std::int64_t vocabulary) {
  std::vector<Request> all;
  Random random(5, Stream::data);
  for (std::int64_t i = 0; i < count; ++i) {
    Tokens prompt;
    for (std::int64_t t = 0; t < 1 + i % 14; ++t)
      prompt.push_back(static_cast<std::int32_t>(random.below(vocabulary)));
    all.push_back({prompt, i * 5 % 23, Random(1, Stream::sample, i)});
  }
  return all;
}

template <class Model>
void check_batch(const Model& model, std::int64_t vocabulary) {
  for (const double temperature : {0.0, 1.0}) {
    const SamplingOptions sampling{.temperature = temperature};
    std::vector<Tokens> alone;
    for (Request& request : requests(40, vocabulary))
      alone.push_back(generate(model, request.prompt, request.tokens, sampling, request.random));
    CHECK(generate(model, requests(40, vocabulary), sampling) == alone);
    // A text ends with its first token 3.
    for (Tokens& text : alone) {
      const auto end = std::ranges::find(text, 3);
      if (end != text.end()) text.erase(end + 1, text.end());
    }
    CHECK(generate(model, requests(40, vocabulary), sampling,
                   [](std::size_t, std::int32_t token) { return token != 3; }) == alone);
  }
}

TEST_SUITE_BEGIN("layers");

TEST_CASE("generate: texts that are written together are token for token those written alone") {
  Random r = init();
  // The context is full after 12 tokens, so that rows read their later half again.
  std::vector<TransformerOptions> variants(
      6, {.vocabulary = 37, .context = 12, .layers = 2, .block = llama_block});
  for (TransformerOptions& variant : variants) variant.block.width = 24;
  variants[1].block = {.width = 24, .attention = {.heads = 2}};
  variants[2].block = {.width = 24,
                       .attention = {.heads = 3, .positions = Positions::sinusoidal, .window = 5}};
  variants[3].block.attention.query_key_norm = 1e-6;
  variants[4].block.attention = {
      .heads = 2,
      .positions = Positions::rotary,
      .random_features = RandomFeaturesOptions{.features = 8, .gate = true}};
  variants[5].block.width = 192;  // of more than one register
  variants[5].vocabulary = 300;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    CAPTURE(i);
    Transformer model(variants[i], r);
    randomised(model, f32);
    check_batch(model, variants[i].vocabulary);
  }
  RecurrentNetwork recurrent({.vocabulary = 37, .layers = 2, .width = 20}, r);
  randomised(recurrent, f32);
  check_batch(recurrent, 37);
}

TEST_CASE("generate: rows of one length or of their own have the bits that they have alone") {
  Random r = init();
  TransformerOptions options{.vocabulary = 53, .context = 90, .layers = 2, .block = llama_block};
  options.block.width = 64;
  options.block.attention.heads = 4;
  options.block.attention.key_value_heads = 2;
  Transformer model(options, r);
  randomised(model, f32);
  const std::vector<std::int64_t> lengths = {3, 70, 65, 1, 64, 3};
  AttentionCaches together = model.make_caches(0);
  std::vector<AttentionCaches> alone;
  for (const std::int64_t length : lengths) {
    alone.push_back(model.make_caches(1));
    model.forward(random_tokens({1, length}, 53, static_cast<std::uint64_t>(length)), alone.back());
  }
  for (std::size_t layer = 0; layer < together.size(); ++layer) {
    std::vector<const AttentionCache*> caches;
    for (const AttentionCaches& one : alone) caches.push_back(one[layer].get());
    together[layer]->append(caches);
  }
  CHECK(together.front()->lengths() == lengths);
  for (const std::int64_t T : {1, 2}) {
    const Array tokens = random_tokens({6, T}, 53, 9);
    const Array logits = model.forward(tokens, together).value();
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      CAPTURE(b);
      const std::int64_t row = static_cast<std::int64_t>(b);
      const Array own = model.forward(tokens.select({row}), alone[b]).value();
      CHECK(same_bits(own, logits.select({row})));
    }
  }
}

TEST_CASE("layers: caches of two kinds or sizes are not joined") {
  Random r = init();
  const SelfAttention by_keys(4, r, {.heads = 2}), wider(6, r, {.heads = 2}),
      by_sums(4, r, {.heads = 2, .random_features = RandomFeaturesOptions{}});
  const auto keys = by_keys.make_cache(1, 4), sums = by_sums.make_cache(1, 4),
             others = wider.make_cache(1, 4), longer = by_keys.make_cache(1, 5);
  for (const AttentionCache* other : {sums.get(), others.get(), longer.get()})
    CHECK_THROWS_AS(keys->append({other}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(sums->append({keys.get()}),
                       doctest::Contains("a cache of sums cannot be joined"),
                       std::invalid_argument);
  CHECK(keys->lengths() == std::vector<std::int64_t>{0});
}

TEST_CASE("generate: an empty prompt among several is refused, and none give none") {
  Random r = init();
  const Transformer model(tiny, r);
  CHECK(generate(model, std::vector<Request>{}, {}).empty());
  CHECK_THROWS_WITH_AS(generate(model, {{{1}, 1, init()}, {{}, 1, init()}}, {}),
                       "generate: a prompt is empty; expected at least one token",
                       std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
