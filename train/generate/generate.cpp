#include "train/generate/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "autograd/argmax.hpp"
#include "autograd/check.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

// logits (1, T, V) -> those of the last token (V), float32.
Array last_row(const Tensor& logits) {
  const Array wide = logits.value().to(DType::float32);
  const auto values = wide.values<float>().last(logits.dim(2));
  return Array::of(std::vector<float>(values.begin(), values.end()), {logits.dim(2)});
}

class TransformerDecodingState final : public DecodingState {
 public:
  explicit TransformerDecodingState(const Transformer& model)
      : model_(model), caches_(model.make_caches(1)) {}

  Array read(const Tokens& tokens) override {
    const std::int64_t context = model_.options.context, seen = caches_.front()->length();
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    if (seen + std::ssize(tokens) <= context) return read_last(std::ssize(tokens));
    if (seen > 0) caches_ = model_.make_caches(1);
    return read_last(seen > 0 ? (context + 1) / 2 : context);
  }

 private:
  Array read_last(std::int64_t count) {
    const Tokens unread(text_.end() - count, text_.end());
    return last_row(model_.forward(one_row(unread), caches_));
  }

  const Transformer& model_;
  AttentionCaches caches_;
  Tokens text_;
};

class RecurrentDecodingState final : public DecodingState {
 public:
  explicit RecurrentDecodingState(const RecurrentNetwork& model)
      : model_(model), states_(model.make_states(1)) {}

  Array read(const Tokens& tokens) override {
    return last_row(model_.forward(one_row(tokens), states_));
  }

 private:
  const RecurrentNetwork& model_;
  std::vector<Tensor> states_;
};

}  // namespace

std::int32_t choose_token(const Array& logits, const SamplingOptions& options, Random& random) {
  const auto all = logits.values<float>();
  const auto values = options.tokens > 0 ? all.first(options.tokens) : all;
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = values[a], y = values[b];
    return x > y || (x == y && a < b);
  };
  const auto likeliest = static_cast<std::int32_t>(argmax(values));
  if (options.temperature == 0) return likeliest;
  std::vector<std::int32_t> tokens(values.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (options.top_k > 0 && options.top_k < std::ssize(tokens)) {
    std::ranges::partial_sort(tokens, tokens.begin() + options.top_k, likelier);
    tokens.resize(options.top_k);
  } else if (options.top_p < 1) {
    std::ranges::sort(tokens, likelier);
  }
  const double best = values[likeliest];
  std::vector<double> weights;
  for (std::int32_t token : tokens)
    weights.push_back(std::exp((values[token] - best) / options.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;  // of the smallest set of tokens that holds a share top_p
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options.top_p * total))
    kept += weights[count++];
  if (options.min_p > 0) {
    std::size_t likely = 0;
    kept = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (weights[i] >= options.min_p) {  // the likeliest one's is 1
        kept += weights[likely] = weights[i];
        tokens[likely++] = tokens[i];
      }
    count = likely;
  }
  double left = random.uniform() * kept;
  std::size_t chosen = 0;
  while (chosen + 1 < count && left >= weights[chosen]) left -= weights[chosen++];
  return tokens[chosen];
}

void TokenChooser::read(std::span<const std::int32_t> tokens) {
  if (options_.repetition_penalty != 1) seen_.insert(tokens.begin(), tokens.end());
}

std::int32_t TokenChooser::choose(Array logits, Random& random) {
  const auto values = logits.mutable_values<float>();
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  for (const std::int32_t token : seen_)
    values[token] = values[token] < 0 ? values[token] * penalty : values[token] / penalty;
  const std::int32_t token = choose_token(logits, options_, random);
  read({&token, 1});
  return token;
}

std::unique_ptr<DecodingState> begin_decoding(const Transformer& model) {
  return std::make_unique<TransformerDecodingState>(model);
}

std::unique_ptr<DecodingState> begin_decoding(const RecurrentNetwork& model) {
  return std::make_unique<RecurrentDecodingState>(model);
}

void generate(DecodingState& reader, const Tokens& prompt, std::int64_t tokens,
              const SamplingOptions& options, Random& random,
              const std::function<bool(std::int32_t)>& take) {
  require(!prompt.empty(), "generate: an empty prompt");
  TokenChooser chooser(options);
  chooser.read(prompt);
  Tokens unread = prompt;
  for (std::int64_t i = 0; i < tokens; ++i) {
    unread = {chooser.choose(reader.read(unread), random)};
    if (!take(unread.front())) return;
  }
}

Tokens generate(DecodingState& reader, const Tokens& prompt, std::int64_t tokens,
                const SamplingOptions& options, Random& random) {
  Tokens text;
  generate(reader, prompt, tokens, options, random, [&](std::int32_t token) {
    text.push_back(token);
    return true;
  });
  return text;
}

}  // namespace tapestry
