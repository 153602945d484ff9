#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops.hpp"
#include "autograd/tape.hpp"
#include "train/generate/beam_search.hpp"

// Compares decoding of an encoder-decoder with decoders without caches, beams or batches.
namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t bos = 1, eos = 2;

// A small model with large random weights, whose choices differ from sentence to sentence.
EncoderDecoder make_model(const TransformerBlockOptions& kind = {}) {
  Random init(5, Stream::init);
  EncoderDecoder model({.source_vocabulary = 6,
                        .target_vocabulary = 5,
                        .source_context = 6,
                        .target_context = 8,
                        .encoder_layers = 1,
                        .decoder_layers = 2,
                        .block = {.width = 8,
                                  .attention = {.heads = 2,
                                                .positions = Positions::sinusoidal,
                                                .random_features = kind.attention.random_features},
                                  .norm = kind.norm}},
                       init);
  for (const Parameter* parameter : model.parameters()) {
    Array values = parameter->value();
    init.fill_normal(values, 0, 0.6);
  }
  return model;
}

const RandomFeaturesOptions positive{.features = 9, .map = FeatureMap::positive};
const TransformerBlockOptions kinds[] = {
    {},
    {.norm = NormPlacement::post},
    {.attention = {.random_features = RandomFeaturesOptions{.features = 9}}},
    {.attention = {.random_features = positive}}};

Array row(const Tokens& tokens) { return Array::of(tokens, {1, std::ssize(tokens)}); }

// Returns log P(token) after `target`, computed without a cache.
std::vector<double> log_probabilities(const EncoderDecoder& model, const Tokens& source,
                                      const Tokens& target) {
  Tokens inputs = target;
  inputs.insert(inputs.begin(), bos);
  const Tensor logits = model.decode(row(inputs), model.encode(row(source), {}));
  const Array all = log_softmax(logits).value().to(DType::float64);
  const auto last = all.values<double>().last(logits.dim(2));
  return {last.begin(), last.end()};
}

Tokens greedy(const EncoderDecoder& model, const Tokens& source, std::size_t limit) {
  Tokens target;
  while (target.size() < limit) {
    const auto next = log_probabilities(model, source, target);
    const auto token = std::ranges::max_element(next) - next.begin();
    if (token == eos) break;
    target.push_back(static_cast<std::int32_t>(token));
  }
  return target;
}

// Returns the best of all targets that end within `limit` tokens by log P / ((5 + length) / 6)^α;
// the length includes the end.
void search_all(const EncoderDecoder& model, const Tokens& source, const Tokens& target,
                double score, std::size_t limit, double alpha, std::pair<double, Tokens>& best) {
  const auto next = log_probabilities(model, source, target);
  for (std::size_t token = 0; token < next.size(); ++token) {
    const double reached = score + next[token];
    if (token == eos) {
      const double length = static_cast<double>(target.size()) + 1;
      const double rating = reached / std::pow((5 + length) / 6, alpha);
      if (rating > best.first) best = {rating, target};
    } else if (target.size() + 1 < limit) {
      Tokens longer = target;
      longer.push_back(static_cast<std::int32_t>(token));
      search_all(model, source, longer, reached, limit, alpha, best);
    }
  }
}

const std::vector<Tokens> sources{{3, 4, 5, 0}, {5, 5, 3, 1}, {0, 4, 4, 2}, {2, 3, 0, 5}};

Array all_sources() {
  Tokens flat;
  for (const Tokens& source : sources) flat.insert(flat.end(), source.begin(), source.end());
  return Array::of(flat, {std::ssize(sources), 4});
}

TEST_CASE("translate: one beam takes the most likely token of each row of a batch") {
  for (const TransformerBlockOptions& kind : kinds) {
    const EncoderDecoder model = make_model(kind);
    const auto targets = translate(model, all_sources(), {}, {.max_tokens = 7});
    for (std::size_t i = 0; i < sources.size(); ++i)
      CHECK(targets[i] == greedy(model, sources[i], 7));
  }
}

TEST_CASE("translate: many beams find the best of all targets") {
  for (const TransformerBlockOptions& kind : kinds)
    for (const double alpha : {0.0, 0.6, 2.0}) {
      CAPTURE(alpha);
      const EncoderDecoder model = make_model(kind);
      // 4³ unfinished targets have 5 continuations each.
      const auto targets = translate(model, all_sources(), {},
                                     {.beams = 320, .max_tokens = 4, .length_penalty = alpha});
      for (std::size_t i = 0; i < sources.size(); ++i) {
        std::pair<double, Tokens> best{-std::numeric_limits<double>::infinity(), {}};
        search_all(model, sources[i], {}, 0, 4, alpha, best);
        CHECK(targets[i] == best.second);
      }
    }
}

TEST_CASE("translate: padding of a source does not change the result") {
  const Array padded = Array::of<std::int32_t>({3, 4, 5, 0, 0, 0, 5, 3, 1, 1, 4, 4}, {2, 6});
  const Array padding = Array::of<std::int32_t>({0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1}, {2, 6});
  for (const TransformerBlockOptions& kind : kinds)
    for (const std::int64_t beams : {1, 3}) {
      const EncoderDecoder model = make_model(kind);
      const TranslateOptions options{.beams = beams, .max_tokens = 6};
      const auto together = translate(model, padded, padding, options);
      CHECK(together[0] == translate(model, row({3, 4, 5}), {}, options)[0]);
      CHECK(together[1] == translate(model, row({5, 3, 1, 1}), {}, options)[0]);
    }
}

TEST_CASE("translate: returns at most the requested tokens and the context") {
  EncoderDecoder model = make_model();
  for (const std::int64_t limit : {1, 3, 100}) {
    const auto targets = translate(model, all_sources(), {}, {.beams = 2, .max_tokens = limit});
    for (const Tokens& target : targets)
      CHECK(std::ssize(target) <= std::min<std::int64_t>(limit, 8));
  }
  CHECK_THROWS_AS(translate(model, all_sources(), {}, {.beams = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
