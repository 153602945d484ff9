#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "tests/support/modules.hpp"

// Tests rows with several documents, which do not attend to each other.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("layers");

// Two rows of documents that share the first tile of 64 tokens, end within one, or are single
// tokens.
const std::vector<std::vector<std::int64_t>> lengths = {{5, 70, 1, 64, 10}, {64, 1, 85}};
constexpr std::int64_t T = 150, vocabulary = 11;

std::vector<Transformer> variants() {
  const TransformerOptions options{
      .vocabulary = vocabulary, .context = T, .layers = 2, .block = llama_block};
  std::vector<TransformerOptions> all(5, options);
  all[1].recompute_blocks = true;
  all[1].block.attention.query_key_norm = 1e-6;
  all[2].block = {.width = 8, .attention = {.heads = 2}};
  all[3].block = {.width = 8,
                  .attention = {.heads = 2, .positions = Positions::sinusoidal, .window = 20}};
  all[4].block.attention = {.heads = 2, .positions = Positions::none};
  std::vector<Transformer> models;
  for (const TransformerOptions& each : all) {
    Random r = init();
    models.emplace_back(each, r);
  }
  return models;
}

// Returns logits (T, V) of each row, or of each document alone, joined; and the gradients of their
// weighted sum by all parameters.
struct Pass {
  std::vector<Array> logits;
  Gradients gradients;
};

Tensor weighted(const Tensor& logits, const Array& weights) {
  return sum(logits * weights.to(logits.dtype()));
}

Pass packed_pass(const Transformer& model, const Array& tokens, const Array& weights) {
  Tape tape;
  const Tensor logits = model.forward(tokens, nullptr, starts_of(lengths));
  Pass pass;
  for (std::int64_t b = 0; b < tokens.dim(0); ++b)
    pass.logits.push_back(slice(logits, 0, b, b + 1).value());
  pass.gradients = tape.backward(weighted(logits, weights));
  return pass;
}

Array part_of(const Array& rows, std::int64_t b, std::int64_t begin, std::int64_t end) {
  const NoTape no_tape;
  return slice(slice(rows, 0, b, b + 1), 1, begin, end).value();
}

Array tokens_of(const Array& rows, std::int64_t b, std::int64_t begin, std::int64_t end) {
  const auto row = rows.values<std::int32_t>().subspan(b * rows.dim(1) + begin, end - begin);
  return ints({row.begin(), row.end()}, {1, end - begin});
}

Pass separate_pass(const Transformer& model, const Array& tokens, const Array& weights) {
  Pass pass;
  for (std::int64_t b = 0; b < tokens.dim(0); ++b) {
    std::vector<Tensor> alone;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths[b]) {
      Tape tape;
      const Tensor logits = model.forward(tokens_of(tokens, b, begin, begin + length));
      alone.push_back(logits.value());
      pass.gradients += tape.backward(weighted(logits, part_of(weights, b, begin, begin + length)));
      begin += length;
    }
    pass.logits.push_back(concat(alone, 1).value());
  }
  return pass;
}

// Returns an array of the shape of `by`.
double relative_distance(const Array& x, const Array& by) {
  double largest = 0;
  for (const double value : doubles(by)) largest = std::max(largest, std::abs(value));
  return distance(x, by) / std::max(1.0, largest);
}

TEST_CASE("documents: logits and gradients of packed rows equal those of each document alone") {
  const Array tokens = random_tokens({2, T}, vocabulary);
  const Array weights = normal({2, T, vocabulary});
  for (const auto& [dtype, tolerance] : {std::pair(f64, 1e-12), std::pair(f32, 1e-5)})
    for (Transformer& model : variants()) {
      randomised(model, dtype);
      const Pass packed = packed_pass(model, tokens, weights),
                 separate = separate_pass(model, tokens, weights);
      for (std::size_t b = 0; b < packed.logits.size(); ++b)
        CHECK(relative_distance(packed.logits[b], separate.logits[b]) <= tolerance);
      for (const Parameter* parameter : model.parameters()) {
        CAPTURE(parameter->name);
        CHECK(relative_distance(packed.gradients[*parameter], separate.gradients[*parameter]) <=
              tolerance);
      }
    }
}

TEST_CASE("documents: the bits of a document do not depend on others in its row") {
  Array tokens = random_tokens({2, T}, vocabulary);
  for (Transformer& model : variants()) {
    randomised(model, f32);
    const Array before = model.forward(tokens, nullptr, starts_of(lengths)).value();
    Array others = tokens.clone();
    for (std::int64_t t = 0; t < T; ++t)  // all but the second document of the first row
      if (t < 5 || t >= 75)
        others.mutable_values<std::int32_t>()[t] =
            (others.values<std::int32_t>()[t] + 1) % vocabulary;
    const Array after = model.forward(others, nullptr, starts_of(lengths)).value();
    CHECK(same_bits(part_of(before, 0, 5, 75), part_of(after, 0, 5, 75)));
    CHECK(!same_bits(part_of(before, 0, 75, T), part_of(after, 0, 75, T)));
  }
}

TEST_CASE("documents: the same bits on 1, 2 and 3 threads") {
  const Array tokens = random_tokens({2, T}, vocabulary);
  const Array weights = normal({2, T, vocabulary});
  const int before = num_threads();
  for (Transformer& model : variants()) {
    randomised(model, f32);
    set_num_threads(1);
    const Pass first = packed_pass(model, tokens, weights);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      const Pass again = packed_pass(model, tokens, weights);
      for (std::size_t b = 0; b < first.logits.size(); ++b)
        CHECK(same_bits(first.logits[b], again.logits[b]));
      for (const Parameter* parameter : model.parameters())
        CHECK(same_bits(first.gradients[*parameter], again.gradients[*parameter]));
    }
  }
  set_num_threads(before);
}

TEST_CASE("documents: recorded attention weights equal those of each document alone") {
  const Array q = normal({1, 9, 8}), k = normal({1, 9, 8});
  const Array all =
      attention_weights(q, k, {.heads = 2, .causal = true, .document_starts = starts_of({{4, 5}})});
  const Array own =
      attention_weights(part_of(q, 0, 4, 9), part_of(k, 0, 4, 9), {.heads = 2, .causal = true});
  const Tensor second = slice(slice(all, 2, 4, 9), 3, 4, 9);
  CHECK(distance(second.value(), own) <= 1e-15);
  for (const double weight : doubles(slice(slice(all, 2, 4, 9), 3, 0, 4).value()))
    CHECK(weight == 0);
}

// Fills arrays of every size up to 1 MB, whose memory is then reused.
void leave_not_a_number() {
  std::vector<Array> left;
  for (std::int64_t power = 256; power < 1 << 18; power *= 2)
    for (std::int64_t eighth = 8; eighth < 16; ++eighth)
      for (int i = 0; i < 4; ++i)
        left.push_back(Array::full({power / 8 * eighth}, std::nan(""), f32));
}

TEST_CASE("bug: attention with documents read uninitialized memory") {
  const Array q = normal({1, 2, 200, 16}).to(f32), gradient = normal({1, 2, 200, 16}).to(f32);
  const auto gradients = [&](const AttentionOptions& options) {
    Tape tape;
    const Tensor x = Tensor::variable(q);
    return tape.backward(scaled_dot_product_attention(x, x, x, options), gradient).take(x);
  };
  for (const AttentionOptions& options :
       {AttentionOptions{.causal = true, .window = 30},
        AttentionOptions{.causal = true, .document_starts = starts_of({{33, 90, 77}})}}) {
    leave_not_a_number();
    const Array after = gradients(options);
    for (const double value : doubles(after)) CHECK(std::isfinite(value));
  }
}

TEST_CASE("documents: wrong arguments are refused with the value that was found") {
  const Array x = normal({1, 4, 6});
  const auto said = [&](const AttentionOptions& options) {
    return misuse_of([&] { scaled_dot_product_attention(x, x, x, options); });
  };
  const std::string op = "scaled_dot_product_attention: ";
  CHECK(
      said({.document_starts = starts_of({{2, 2}})})
          .starts_with(
              op + "document_starts int32 (1, 4) with queries (1, 4), 4 keys and causal = false"));
  CHECK(said({.causal = true, .document_starts = starts_of({{2, 3}})})
            .starts_with(
                op + "document_starts int32 (1, 5) with queries (1, 4), 4 keys and causal = true"));
  CHECK(said({.causal = true, .document_starts = ints({0, 1, 0, 3}, {1, 4})}) ==
        op + "the document of token 2 starts at 0; expected 1 to 2");
  CHECK(said({.causal = true, .document_starts = ints({0, 2, 2, 3}, {1, 4})}) ==
        op + "the document of token 1 starts at 2; expected 0 to 1");
  Random r = init();
  Transformer model(
      {.vocabulary = 5,
       .context = 4,
       .layers = 1,
       .block = {.width = 4,
                 .attention = {.heads = 2, .random_features = RandomFeaturesOptions{}}}},
      r);
  CHECK_THROWS_WITH_AS(
      model.forward(ints({1, 2, 3, 4}, {1, 4}), nullptr, starts_of({{2, 2}})),
      doctest::Contains("random features support no mask, window, document_starts"),
      std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
