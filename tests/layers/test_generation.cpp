#include <doctest/doctest.h>

#include <algorithm>

#include "autograd/buffer_pool.hpp"
#include "autograd/ops.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "layers/models/recurrent_network.hpp"
#include "optim/adam.hpp"
#include "tests/support/modules.hpp"
#include "train/generate/generate.hpp"

namespace tapestry {
namespace {

// tokens (B, T)[:, begin : end].
Array columns_of(const Array& tokens, std::int64_t begin, std::int64_t end) {
  Array part({tokens.dim(0), end - begin}, DType::int32);
  for (std::int64_t b = 0, i = 0; b < tokens.dim(0); ++b)
    for (std::int64_t t = begin; t < end; ++t, ++i)
      part.mutable_values<std::int32_t>()[i] = tokens.values<std::int32_t>()[b * tokens.dim(1) + t];
  return part;
}

// Feeds (B, T) tokens to cached models in chunks, and to the same model uncached.
void check_cached(const Transformer& model, const Array& tokens, double tolerance) {
  const std::int64_t B = tokens.dim(0), T = tokens.dim(1);
  const std::vector<std::vector<std::int64_t>> chunkings = {
      {8}, {1, 1, 1, 1, 1, 1, 1, 1}, {5, 1, 1, 1}, {1, 7}, {3, 5}, {2, 4, 1, 1}};
  const Tensor whole = model.forward(tokens);  // (B, T, V)
  for (const std::vector<std::int64_t>& chunks : chunkings) {
    AttentionCaches caches = model.make_caches(B);
    std::vector<Tensor> logits;
    std::int64_t t = 0;
    for (const std::int64_t chunk : chunks) {
      logits.push_back(model.forward(columns_of(tokens, t, t + chunk), caches));
      t += chunk;
    }
    CHECK(caches.back()->length() == T);
    CHECK(distance(concat(logits, 1).value(), whole.value()) <= tolerance);
  }
}

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: cached logits equal the uncached ones for all positions and heads") {
  const Array tokens = random_tokens({3, 8}, 11);
  for (const std::int64_t shared : {1, 2, 4})
    for (const std::int64_t head_width : {0, 6})
      for (const Positions positions :
           {Positions::learned, Positions::sinusoidal, Positions::rotary, Positions::none})
        for (const std::int64_t window : {0, 3})
          for (const DType dtype : {f32, f64}) {
            if (dtype == f32 && positions != Positions::rotary) continue;
            Random r = init();
            TransformerOptions options{
                .vocabulary = 11, .context = 10, .layers = 2, .block = llama_block};
            options.block.width = 16;
            options.block.dropout = 0.5;
            if (window > 0 && dtype == f64) options.block.norm = NormPlacement::post;
            MultiHeadOptions& attention = options.block.attention;
            attention.heads = 4;
            attention.key_value_heads = shared;
            attention.head_width = head_width;
            attention.positions = positions;
            attention.window = window;
            if (window > 0) attention.query_key_norm = 1e-6;
            Transformer model(options, r);
            randomised(model, dtype);
            check_cached(model, tokens, dtype == f32 ? 1e-5 : 1e-12);
            const std::int64_t D = head_width > 0 ? head_width : 4;
            const std::int64_t before = memory_use().bytes_in_use;
            AttentionCaches caches = model.make_caches(3);
            model.forward(tokens, caches);
            CHECK(memory_use().bytes_in_use - before >=
                  2 * 2 * 3 * 10 * shared * D * static_cast<std::int64_t>(size_of(dtype)));
            CHECK(memory_use().bytes_in_use - before <
                  2 * 2 * 3 * 10 * (shared + 1) * D * static_cast<std::int64_t>(size_of(dtype)));
          }
}

TEST_CASE("layers: a q8_0 model computes the logits of its rounded weights") {
  for (const bool tied : {true, false})
    for (const std::int64_t width : {32, 24}) {
      const auto make = [&] {
        Random r = init();
        return Transformer({.vocabulary = 11,
                            .context = 40,
                            .layers = 2,
                            .block = {.width = width, .attention = {.heads = 2}},
                            .tied_embeddings = tied},
                           r);
      };
      Transformer model = make(), expected = make();
      // Only the rows of the second layer of each feed-forward network, of 96 numbers, are
      // multiples of 32.
      const std::int64_t count = width == 32 ? 2 * 4 + 1 + !tied : 2;
      CHECK(quantize_weights(model) == count);
      std::int64_t rounded = 0;
      const std::vector<Parameter*> ours = model.parameters();
      for (std::size_t i = 0; Parameter * parameter : expected.parameters())
        if (ours[i++]->tensor.dtype() == DType::q8_0) {
          parameter->convert(DType::q8_0);
          parameter->convert(f32);
          ++rounded;
        }
      CHECK(rounded == count);
      const Array tokens = random_tokens({2, 20}, 11);
      CHECK(same_bits(model.forward(tokens).value(), expected.forward(tokens).value()));
      const std::vector<std::int32_t> prompt = {1, 2, 3};
      CHECK(generate(model, prompt, 60, {}, init()) == generate(expected, prompt, 60, {}, init()));
    }
}

// Small models with every combination of norms, feed-forwards, heads, positions and biases.
std::vector<TransformerOptions> architectures() {
  std::vector<TransformerOptions> all;
  const std::optional<RotaryScaling> scaled = RotaryScaling{.original_context = 8};
  for (const NormKind norm : {NormKind::layer, NormKind::rms})
    for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post})
      for (const bool gated : {false, true})
        for (const Activation activation : {Activation::gelu, Activation::silu})
          for (const std::int64_t shared : {0, 2})
            for (const bool normed_heads : {false, true})
              for (const bool biased : {false, true})
                for (const auto& [positions, form] :
                     {std::pair{Positions::learned, RotaryForm{}},
                      {Positions::rotary, RotaryForm{}},
                      {Positions::rotary, {.pairs = RotaryPairs::halves, .scaling = scaled}}}) {
                  const LinearOptions linear{.bias = biased};
                  TransformerOptions options{
                      .vocabulary = 11, .context = 10, .layers = 2, .tied_embeddings = gated};
                  options.block = {.width = 16,
                                   .attention = {.heads = 4,
                                                 .key_value_heads = shared,
                                                 .head_width = normed_heads ? 6 : 0,
                                                 .positions = positions,
                                                 .rotary = form,
                                                 .input = {.bias = !biased},
                                                 .output = linear},
                                   .feed_forward = {.hidden = 12,
                                                    .activation = activation,
                                                    .gated = gated,
                                                    .expand = linear,
                                                    .contract = linear},
                                   .norm = placement,
                                   .norms = {.kind = norm}};
                  if (normed_heads) options.block.attention.query_key_norm = 1e-6;
                  all.push_back(options);
                }
  return all;
}

TEST_CASE(
    "layers: each architecture learns, recomputes the same bits, and generates as it predicts") {
  const Array tokens = random_tokens({3, 8}, 11), targets = random_tokens({3, 8}, 11, 2);
  const std::vector<TransformerOptions> all = architectures();
  CHECK(all.size() == 384);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const auto after_steps = [&](bool recomputed) {
      TransformerOptions options = all[i];
      options.recompute_blocks = recomputed;
      Random r = init();
      Transformer model(options, r);
      const std::vector<Parameter*> parameters = model.parameters();
      AdamW optimizer(parameters, {});
      std::vector<double> losses;
      for (int step = 0; step < 5; ++step) {
        Tape tape;
        const Tensor loss = cross_entropy(model.forward(tokens), targets);
        const Gradients gradients = tape.backward(loss);
        for (const Parameter* parameter : parameters) CHECK(gradients.find(*parameter));
        losses.push_back(loss.item());
        optimizer.step(gradients, 1e-2);
      }
      return losses;
    };
    const std::vector<double> losses = after_steps(false);
    CHECK(losses.back() < 0.95 * losses.front());
    if (i % 8 == 3) CHECK(after_steps(true) == losses);
    Random r = init();
    Transformer model(all[i], r);
    randomised(model, f64);
    check_cached(model, tokens, 1e-12);
  }
}

TEST_CASE("layers: caches take memory for the text, not for the context, with the same bits") {
  Random r = init();
  TransformerOptions options{.vocabulary = 31, .context = 100000, .layers = 1};
  options.block = {.width = 16, .attention = {.heads = 2, .positions = Positions::rotary}};
  Transformer model(options, r);
  randomised(model, f32);
  const auto bytes_of_tokens = [](std::int64_t tokens) { return 2 * 16 * 4 * tokens; };
  const std::int64_t before = memory_use().bytes_in_use;
  const auto bytes = [&] { return memory_use().bytes_in_use - before; };
  AttentionCaches alone = model.make_caches(1);
  CHECK(bytes() <= bytes_of_tokens(1));
  model.forward(random_tokens({1, 3}, 31), alone);
  CHECK(bytes() < bytes_of_tokens(1000));  // with the packed panels of threads
  {
    // With a longer row memory exists from the start; alone it is allocated when needed.
    AttentionCaches longer = model.make_caches(1);
    model.forward(random_tokens({1, 200}, 31), longer);
    AttentionCaches beside = model.make_caches(0);
    beside.front()->append({alone.front().get()});
    beside.front()->append({longer.front().get()});
    CHECK(bytes() < bytes_of_tokens(2000));
    for (std::int64_t t = 3; t < 300; ++t) {
      const Array tokens = random_tokens({2, 1}, 31, static_cast<std::uint64_t>(t));
      const Array logits = model.forward(tokens, beside).value();
      const Array own = model.forward(tokens.select({0}), alone).value();
      CHECK(same_bits(own, logits.select({0})));
    }
    CHECK(beside.front()->lengths() == std::vector<std::int64_t>{300, 497});
    longer.clear();
    beside.front()->select({0});
    CHECK(bytes() < bytes_of_tokens(2 * 512 + 1000));
    const Array token = random_tokens({1, 1}, 31);
    CHECK(same_bits(model.forward(token, beside).value(), model.forward(token, alone).value()));
  }
  CHECK(bytes() < bytes_of_tokens(512 + 1000));
}

TEST_CASE(
    "layers: cached logits of random features equal the uncached ones, with constant memory") {
  const Array tokens = random_tokens({3, 8}, 11);
  for (const Positions positions : {Positions::learned, Positions::rotary})
    for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive})
      for (const bool gated : {false, true})
        for (const DType dtype : {f32, f64}) {
          Random r = init();
          TransformerOptions options{
              .vocabulary = 11,
              .context = 10,
              .layers = 2,
              .block = {.width = 12,
                        .attention = {
                            .heads = 2,
                            .positions = positions,
                            .random_features = RandomFeaturesOptions{.map = map, .gate = gated}}}};
          Transformer model(options, r);
          randomised(model, dtype);
          check_cached(model, tokens, dtype == f32 ? 1e-4 : 1e-11);

          const auto bytes = [](const Transformer& of) {
            const std::int64_t before = memory_use().bytes_in_use;
            const AttentionCaches caches = of.make_caches(3);
            return memory_use().bytes_in_use - before;
          };
          CHECK(bytes(model) > 0);
          options.context = 100000;
          Transformer longer(options, r);
          longer.convert(dtype);
          CHECK(bytes(longer) == bytes(model));
        }
}

TEST_CASE("layers: a recurrent network's logits do not depend on the chunks") {
  constexpr std::int64_t B = 3, T = 6, V = 11;
  const Array tokens = random_tokens({B, T}, V);
  for (const RecurrentKind kind : {RecurrentKind::elman, RecurrentKind::lstm, RecurrentKind::gru})
    for (const DType dtype : {f32, f64}) {
      Random r = init();
      RecurrentNetwork model(
          {.vocabulary = V, .layers = 2, .width = 12, .kind = kind, .dropout = 0.5}, r);
      randomised(model, dtype);
      const Tensor whole = model.forward(tokens);  // (B, T, V)
      CHECK(whole.shape() == Shape{B, T, V});
      for (const std::vector<std::int64_t>& chunks :
           {std::vector<std::int64_t>{6}, {1, 1, 1, 1, 1, 1}, {4, 1, 1}, {2, 4}}) {
        std::vector<Tensor> states = model.make_states(B), logits;
        std::int64_t t = 0;
        for (const std::int64_t chunk : chunks) {
          logits.push_back(model.forward(columns_of(tokens, t, t + chunk), states));
          t += chunk;
        }
        CHECK(distance(concat(logits, 1).value(), whole.value()) <= (dtype == f32 ? 1e-5 : 1e-12));
      }
    }
}

TEST_CASE("layers: a cache holds at most the model's context") {
  Random r = init();
  const Transformer model(tiny, r);
  AttentionCaches caches = model.make_caches(1);
  CHECK(caches.size() == 2);
  model.forward(ints({1, 2, 3}, {1, 3}), caches);
  CHECK_THROWS_WITH_AS(model.forward(ints({1, 2}, {1, 2}), caches),
                       doctest::Contains("transformer: tokens (1, 2) after 3 in the caches"),
                       std::invalid_argument);
  CHECK(caches[0]->length() == 3);
  const auto small = model.blocks[0].attention.make_cache(1, 2);
  CHECK_THROWS_WITH_AS(
      model.blocks[0].attention.forward(Array::zeros({1, 3, 4}), *small),
      doctest::Contains(
          "x float32 (1, 3, 4) after 0 tokens does not fit a cache of float32 (1, 2, 4)"),
      std::invalid_argument);
}

TEST_CASE("bug: a cache of another batch, width or dtype was written past its end") {
  Random r = init();
  const SelfAttention attention(4, r, {.heads = 2});
  const Array x = Array::zeros({2, 3, 4});
  for (const auto& [extent, dtype] :
       {std::pair{Shape{1, 3, 4}, f32}, {Shape{2, 3, 2}, f32}, {Shape{2, 3, 4}, f64}}) {
    const auto cache = attention.mechanism->make_cache(extent, dtype);
    CHECK_THROWS_AS(attention.forward(x, *cache), std::invalid_argument);
    CHECK(cache->length() == 0);
  }
  const auto fits = attention.mechanism->make_cache({2, 3, 4}, f32);
  attention.forward(x, *fits);
  CHECK(fits->length() == 3);
}

TEST_CASE("bug: a transformer read past the end of too few caches") {
  Random r = init();
  const Transformer model(tiny, r);
  AttentionCaches none, one;
  one.push_back(model.blocks[0].attention.make_cache(1, 4));
  for (auto* caches : {&none, &one})
    CHECK_THROWS_WITH_AS(
        model.forward(ints({1}, {1, 1}), *caches),
        doctest::Contains(fmt::format("{} caches for 2 blocks", caches->size()).c_str()),
        std::invalid_argument);
}

TEST_CASE("bug: an encoder-decoder without decoder blocks read the first of no caches") {
  Random r = init();
  const EncoderDecoder model({.source_vocabulary = 5,
                              .target_vocabulary = 5,
                              .encoder_layers = 1,
                              .decoder_layers = 0,
                              .block = {.width = 4, .attention = {.heads = 2}}},
                             r);
  AttentionCaches caches = model.make_caches(1);
  const auto encoded = model.encode(ints({1, 2}, {1, 2}), Array());
  CHECK(misuse_of([&] {
          model.decode(ints({1}, {1, 1}), encoded, caches);
        }).starts_with("encoder-decoder: 0 caches for 0 blocks; expected at least one block"));
}

// Returns the most likely continuation of a prompt by logits of the whole text.
template <class Model>
Tokens continued(const Model& model, Tokens text, std::int64_t tokens) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t T = std::ssize(text);
    const Tensor logits = model.forward(Array::of(text, {1, T}));
    const std::vector<double> last = doubles(slice(logits, 1, T - 1, T).value());
    text.push_back(static_cast<std::int32_t>(std::ranges::max_element(last) - last.begin()));
  }
  return {text.end() - tokens, text.end()};
}

TEST_CASE("generate: continues as if it read the whole text again") {
  Random r = init(), chance(0, Stream::sample);
  Transformer transformer({.vocabulary = 9,
                           .context = 20,
                           .layers = 2,
                           .block = {.width = 8, .attention = {.heads = 2}}},
                          r);
  RecurrentNetwork recurrent({.vocabulary = 9, .layers = 2, .width = 8}, r),
      lstm({.vocabulary = 9, .layers = 2, .width = 8, .kind = RecurrentKind::lstm}, r);
  randomised(transformer, f32);
  randomised(recurrent, f32);
  randomised(lstm, f32);
  const Tokens prompt = {3, 1, 4, 1, 5};
  const SamplingOptions greedy{.temperature = 0};
  CHECK(generate(transformer, prompt, 15, greedy, chance) == continued(transformer, prompt, 15));
  CHECK(generate(recurrent, prompt, 40, greedy, chance) == continued(recurrent, prompt, 40));
  CHECK(generate(lstm, prompt, 40, greedy, chance) == continued(lstm, prompt, 40));
  CHECK(generate(recurrent, prompt, 0, greedy, chance).empty());
  CHECK_THROWS_WITH_AS(generate(recurrent, {}, 1, greedy, chance),
                       "generate: a prompt is empty; expected at least one token",
                       std::invalid_argument);
}

TEST_CASE("generate: a transformer with a full context reads its later half again") {
  Random r = init(), chance(0, Stream::sample);
  Transformer model({.vocabulary = 9,
                     .context = 6,
                     .layers = 1,
                     .block = {.width = 8, .attention = {.heads = 2}}},
                    r);
  randomised(model, f32);
  const SamplingOptions greedy{.temperature = 0};
  Tokens text = {8, 7, 0, 3, 1, 4, 1, 5};  // the model reads the last six
  const auto given = generate(model, text, 8, greedy, chance);
  for (const std::size_t seen : {6u, 3u, 4u, 5u, 6u, 3u, 4u, 5u}) {
    const Tokens part(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
    text.push_back(continued(model, part, 1).front());
  }
  CHECK(std::equal(given.begin(), given.end(), text.end() - 8));
}

// Compares texts generated together with the same ones alone.

// More prompts than are read together, of many lengths.
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

TEST_CASE("generate: texts have the same tokens together and alone") {
  Random r = init();
  // The context is full after 12 tokens: rows then read their later half again.
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
  for (const RecurrentKind kind : {RecurrentKind::elman, RecurrentKind::lstm, RecurrentKind::gru}) {
    RecurrentNetwork recurrent({.vocabulary = 37, .layers = 2, .width = 20, .kind = kind}, r);
    randomised(recurrent, f32);
    check_batch(recurrent, 37);
  }
}

TEST_CASE("generate: rows of equal or other lengths have the same bits together and alone") {
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

TEST_CASE("layers: caches of different kinds or sizes cannot be joined") {
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

TEST_CASE("generate: an empty prompt is refused, and no prompts give no texts") {
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
