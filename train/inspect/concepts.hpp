#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/plot/figure.hpp"

// Figures of the parts of a transformer as the layers compute them, without a trained model.
namespace tapestry {

// Returns, for positions 0 to tokens - 1, the sinusoidal encodings (a row for each position, a
// column for each of `width` features), their scalar products with each other, and the cosines of
// the angles of rotary embeddings, a column for each pair of features. Throws std::invalid_argument
// for an odd width.
HeatMaps figure_of_positions(std::int64_t tokens, std::int64_t width);

struct MaskOptions {
  std::int64_t tokens = 8;
  std::int64_t window = 3;   // tokens that a query sees, with itself
  std::int64_t padding = 2;  // last keys that are padding
};
// Returns which keys each query sees without a mask, with the causal mask, with the window added,
// and with padding. Visible keys are dark: M is 0 there, and -∞ elsewhere.
HeatMaps figure_of_masks(const MaskOptions& options);

// How well a number of random features estimates softmax attention: for each seed the mean of
// |estimated weight - exact weight| over all weights.
struct FeatureErrors {
  std::string map{};  // "positive" or "trigonometric"
  std::int64_t features = 0;
  std::vector<double> values{};
};
struct FeatureEstimates {
  std::vector<FeatureErrors> errors{};
  HeatMaps figure{};  // a row for each map: the exact weights, then the estimates of the first seed
};
// Returns estimates of the weights of 16 queries and keys from N(0, 1) with head width 16, by
// 16, 64, 256 and 1024 features, for `seeds` seeds.
FeatureEstimates estimate_by_features(std::int64_t seeds);

}  // namespace tapestry
