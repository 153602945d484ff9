#include "train/tasks/language/decoder_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/check.hpp"
#include "autograd/ops/softmax.hpp"
#include "train/inspect/values.hpp"

namespace tapestry {
namespace {

constexpr std::size_t most_predictions = 5;
constexpr double most_weights = 5e5;  // of all layers, heads and examples of a page
constexpr std::int64_t most_tokens = 64;

AttentionMaps maps_of(const AttentionRecorder& recorder, const std::vector<std::string>& labels) {
  AttentionMaps maps;
  for (const auto& [path, weights] : recorder.entries)
    maps.push_back({.path = path,
                    .weights = weights.reshaped({weights.dim(1), weights.dim(2), weights.dim(3)}),
                    .queries = labels,
                    .keys = labels});
  return maps;
}

// The likeliest tokens by their probabilities (V), named.
std::vector<ReadExample::Prediction> likeliest_of(
    std::span<const float> probabilities,
    const std::function<std::string(std::int32_t token)>& label) {
  std::vector<std::int32_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t shown = std::min(most_predictions, order.size());
  std::ranges::partial_sort(order, order.begin() + shown, std::greater(),
                            [&](std::int32_t token) { return probabilities[token]; });
  std::vector<ReadExample::Prediction> predictions;
  for (const std::int32_t token : std::span(order).first(shown))
    predictions.emplace_back(label(token), probabilities[token]);
  return predictions;
}

}  // namespace

AttentionMaps attention_of(const Transformer& model, const std::vector<std::int32_t>& tokens,
                           const std::vector<std::string>& labels) {
  AttentionRecorder recorder;
  model.forward(Array::of(tokens, {1, std::ssize(tokens)}));
  return maps_of(recorder, labels);
}

ReadExample read_by(const Transformer& model, const std::vector<std::int32_t>& tokens,
                    const std::function<std::string(std::int32_t token)>& label) {
  std::vector<std::string> labels;
  std::ranges::transform(tokens, std::back_inserter(labels), label);
  AttentionRecorder recorder;
  const std::int64_t T = std::ssize(tokens);
  const Array probabilities = softmax(model.forward(Array::of(tokens, {1, T}))).value();  // (1,T,V)
  const std::int64_t V = probabilities.dim(2);
  expect_finite(probabilities);
  ReadExample example{.maps = maps_of(recorder, labels)};
  for (std::int64_t t = 0; t < T; ++t)
    example.expectations.push_back(
        {.after = labels[t],
         .actual = t + 1 < T ? labels[t + 1] : "",
         .predictions = likeliest_of(probabilities.values<float>().subspan(t * V, V), label)});
  return example;
}

std::int64_t readable_tokens(const Transformer& model, std::int64_t examples) {
  const auto maps =
      static_cast<double>(examples * model.options.layers * model.options.block.attention.heads);
  const auto fitting = static_cast<std::int64_t>(std::sqrt(most_weights / maps));
  return std::max<std::int64_t>(1, std::min({most_tokens, fitting, model.options.context}));
}

}  // namespace tapestry
