#pragma once

#include <optional>

#include "layers/module.hpp"

namespace tapestry {

enum class FeatureMap { trigonometric, positive };

struct RandomFeaturesOptions {
  std::int64_t features = 64;  // D
  FeatureMap map = FeatureMap::trigonometric;
  bool gate = false;  // in causal self-attention, see linear_attention
};

// The features of queries or keys, whose products linear attention uses to estimate exponentials.
struct Features {
  Tensor values;       // (..., H, F, T)
  Array log_scales{};  // l (..., H, T): the features are e^l · values; empty: l = 0
};

// Random feature maps φ, where φ(x) · φ(y) is an unbiased estimate of a softmax kernel with a
// standard deviation of about 1/√D: x (..., H, T, d) -> (..., H, F, T), where d is the head width.
// trigonometric: e^(-|σ∘x̂ - σ∘ŷ|²/2) of the unit vectors x̂ and ŷ, a multiple of e^(σ² x̂·ŷ) where
//   σ is equal, by F = 2D features √(1/D) [sin w_1·x̂ … sin w_D·x̂, cos w_1·x̂ … cos w_D·x̂],
//   w = σ∘w̃, w̃ ~ N(0, I), where σ is learned and starts at 1 (Peng et al. 2021, arXiv 2103.02143,
//   §2.2 and 3).
// positive: e^(x·y/√d) by F = D features √(1/D) e^(w·x' - |x'|²/2), x' = x d^(-1/4), w ~ N(0, I) in
//   orthogonal groups of d (Choromanski et al. 2020, arXiv 2009.14794, lemma 1 and §2.4). Each
//   token's features are scaled so that the largest is √(1/D); the log scale reverses the scaling.
// The constructor throws std::invalid_argument for less than one feature.
class RandomFeatures final : public Module {
 public:
  RandomFeaturesOptions options;
  Parameter projection;            // w̃ (H, D, d): drawn once and fixed, saved in checkpoints
  std::optional<Parameter> sigma;  // (H, d), trigonometric

  RandomFeatures(std::int64_t heads, std::int64_t head_width, Random& init,
                 const RandomFeaturesOptions& wanted);
  Features forward(const Tensor& x) const;
  std::int64_t width() const;  // F
  void fields(FieldVisitor& visit) override;

  // Returns the floor of linear attention: estimates by trigonometric features may be 0 or less.
  double floor() const { return options.map == FeatureMap::trigonometric ? 0.01 : 0; }
};

}  // namespace tapestry
