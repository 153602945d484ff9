#pragma once

#include <optional>

#include "autograd/ops/norms.hpp"
#include "layers/module.hpp"

namespace tapestry {

enum class NormKind { layer, rms, none };

struct NormOptions {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;  // ε, added to the variance or mean square
};

// Normalization of the last axis: x (..., C) -> (..., C).
// layer: weight (x - mean) / √(variance + ε) + bias, with weight and bias (C).
// rms:   weight x / √(mean(x²) + ε), with weight (C).
// none:  x, without parameters.
class Norm final : public Module {
 public:
  NormOptions options;
  Parameter weight;               // (C); an empty array for none
  std::optional<Parameter> bias;  // (C), layer

  explicit Norm(std::int64_t width, const NormOptions& wanted = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// Normalization of each group of channels of an image: x (B, C, H, W) -> (B, C, H, W), with weight
// and bias (C), see group_norm().
class GroupNorm final : public Module {
 public:
  GroupNormOptions options;
  Parameter weight, bias;

  explicit GroupNorm(std::int64_t channels, const GroupNormOptions& wanted = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// A layer that sets each element of x (...) to 0 with probability `rate`, see dropout(). Returns x
// if `noise` is null (evaluation).
class Dropout final : public Module {
 public:
  double rate;

  explicit Dropout(double dropped) : rate(dropped) {}
  Tensor forward(const Tensor& x, Random* noise) const;
  void fields(FieldVisitor&) override {}
};

}  // namespace tapestry
