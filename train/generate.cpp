#include "train/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

// The logits (V) that follow the last token.
Array last_logits(const Transformer& model, const std::vector<std::int32_t>& tokens,
                  std::vector<KeyValueCache>& caches) {
  const auto T = static_cast<std::int64_t>(tokens.size());
  const Array logits = model.forward(Array::of(tokens, {1, T}), caches).value();
  const auto values =
      logits.to(DType::float32).values<float>().last(static_cast<std::size_t>(logits.dim(2)));
  return Array::of(std::vector<float>(values.begin(), values.end()), {logits.dim(2)});
}

}  // namespace

std::int32_t choose_token(const Array& logits, const SampleOptions& options, Random& random) {
  const auto values = logits.values<float>();
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::vector<std::int32_t> tokens(values.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::int32_t likeliest = *std::ranges::min_element(tokens, likelier);
  if (options.temperature == 0) return likeliest;
  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(tokens.size())) {
    std::ranges::partial_sort(tokens, tokens.begin() + options.top_k, likelier);
    tokens.resize(static_cast<std::size_t>(options.top_k));
  } else if (options.top_p < 1) {
    std::ranges::sort(tokens, likelier);
  }
  const double best = values[static_cast<std::size_t>(likeliest)];
  std::vector<double> weights;
  for (std::int32_t token : tokens)
    weights.push_back(
        std::exp((values[static_cast<std::size_t>(token)] - best) / options.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;  // of the smallest set of tokens that holds a share top_p
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options.top_p * total))
    kept += weights[count++];
  double left = random.uniform() * kept;
  std::size_t chosen = 0;
  while (chosen + 1 < count && left >= weights[chosen]) left -= weights[chosen++];
  return tokens[chosen];
}

std::vector<std::int32_t> generate(const Transformer& model,
                                   const std::vector<std::int32_t>& prompt, std::int64_t tokens,
                                   const SampleOptions& options, Random& random) {
  require(!prompt.empty(), "generate: an empty prompt");
  const auto context = static_cast<std::size_t>(model.options.context);
  std::vector<std::int32_t> text = prompt;
  std::vector<std::int32_t> unread(
      prompt.end() - static_cast<std::ptrdiff_t>(std::min(prompt.size(), context)), prompt.end());
  std::vector<KeyValueCache> caches = model.make_caches(1);
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (static_cast<std::size_t>(caches.front().length) + unread.size() > context) {
      caches = model.make_caches(1);
      unread.assign(text.end() - static_cast<std::ptrdiff_t>((context + 1) / 2), text.end());
    }
    const std::int32_t token = choose_token(last_logits(model, unread, caches), options, random);
    text.push_back(token);
    unread = {token};
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace tapestry
