#include "train/tasks/language/decoder_inspectors.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/softmax.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/inspectors.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_predictions = 5;
// Maximum number of attention weights of all layers, heads and examples on a page.
constexpr double most_weights = 5e5;
constexpr std::int64_t most_tokens = 64;

// Returns the most probable tokens, given probabilities (V), with their labels.
std::vector<ReadExample::Prediction> likeliest_of(
    std::span<const float> probabilities,
    const std::function<std::string(std::int32_t token)>& label) {
  std::vector<ReadExample::Prediction> predictions;
  for (const std::int32_t token : largest(probabilities, most_predictions))
    predictions.emplace_back(label(token), probabilities[token]);
  return predictions;
}

}  // namespace

AttentionMaps attention_of(const Transformer& model, const std::vector<std::int32_t>& tokens,
                           const std::vector<std::string>& labels) {
  AttentionRecorder recorder;
  model.forward(Array::of(tokens, {1, std::ssize(tokens)}));
  return attention_maps(recorder, labels);
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
  ReadExample example{.maps = attention_maps(recorder, labels)};
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
