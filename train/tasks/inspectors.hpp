#pragma once

#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "layers/multi_head_attention.hpp"
#include "train/config/options.hpp"
#include "train/inspect/report_panels.hpp"

// Options, outcomes and attention maps that inspectors of several tasks use.
namespace tapestry {

inline Key<std::string> prompt_option(const std::string& help) { return {"prompt", "", help}; }

// Returns the option --count with its default.
inline Key<std::int64_t> count_option(std::int64_t otherwise,
                                      const std::vector<Condition>& used_if = {}) {
  return {"count", otherwise, "number of samples", {.low = 1, .high = 100000, .used_if = used_if}};
}

// Returns the option --count, which is 0 if it is not given. `otherwise` describes its default.
inline Key<std::int64_t> count_option(const std::string& otherwise,
                                      const std::vector<Condition>& used_if = {}) {
  Key<std::int64_t> option = count_option(0, used_if);
  option.help += fmt::format(" (default: {})", otherwise);
  return option;
}

inline Key<std::int64_t> index_option(const std::string& help,
                                      const std::vector<Condition>& used_if = {}) {
  return {"index", 0, help, {.low = 0, .high = 1000000000, .used_if = used_if}};
}

// Returns the option --best of a classifier's predictions.
inline Key<std::int64_t> best_option() {
  return {"best",
          0,
          "number of most probable classes, with a probability each (default: the probabilities of "
          "all of up to 100 classes, else 5)",
          {.low = 1, .high = 1000}};
}

inline Key<std::int64_t> seed_option(const std::vector<Condition>& used_if = {}) {
  return {"seed", 1, "seed of the samples (default: 1)", {.low = 0, .used_if = used_if}};
}

inline Key<double> temperature_option(const std::string& help,
                                      const std::vector<Condition>& used_if = {}) {
  return {"temperature", 1, help, {.low = 0, .high = 100, .used_if = used_if}};
}

// Returns the option --image of tasks on images.
inline Key<std::string> image_option(const std::string& help) {
  return {"image", "", help + "; may be repeated", {.repeated = true}};
}

// Returns "right", or "wrong, expected …".
inline std::string outcome(const std::string& predicted, const std::string& expected) {
  return predicted == expected ? "right" : "wrong, expected " + expected;
}

// Returns the attention of each recorded layer of a decoder to its source, the mean of its heads:
// (layers · B, T, S).
inline Tensor cross_attention(const AttentionRecorder& recorder) {
  std::vector<Tensor> layers;
  for (const auto& [path, weights] : recorder.entries)
    if (path.ends_with("cross_attention")) layers.push_back(mean(weights, {1}));
  return concat(layers, 0);
}

// Returns the attention of each recorded layer in one row of the batch, with the labels of the
// tokens.
inline AttentionMaps attention_maps(const AttentionRecorder& recorder,
                                    const std::vector<std::string>& labels, std::int64_t row = 0) {
  AttentionMaps maps;
  for (const auto& [path, weights] : recorder.entries)
    maps.push_back({.path = path,
                    .weights = weights.select({row}).reshaped(
                        {weights.dim(1), weights.dim(2), weights.dim(3)}),
                    .queries = labels,
                    .keys = labels});
  return maps;
}

}  // namespace tapestry
