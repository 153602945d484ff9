#include "train/tasks/language/decoder_attention.hpp"

namespace tapestry {

AttentionMaps attention_of(const Transformer& model, const std::vector<std::int32_t>& tokens,
                           const std::vector<std::string>& labels) {
  const std::int64_t T = std::ssize(tokens);
  AttentionRecorder recorder;
  model.forward(Array::of(tokens, {1, T}));
  AttentionMaps maps;
  for (const auto& [path, weights] : recorder.entries)
    maps.push_back({.path = path,
                    .weights = weights.reshaped({weights.dim(1), T, T}),
                    .queries = labels,
                    .keys = labels});
  return maps;
}

}  // namespace tapestry
