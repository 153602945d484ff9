#pragma once

#include <optional>

#include "layers/module.hpp"

namespace tapestry {

enum class NormKind { layer, rms };

struct NormOptions {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;  // beneath the root
};

// x (..., C) -> x normalised over C.
// layer: (x - mean) / √(variance + ε), scaled by weight (C) and shifted by bias (C).
// rms:   x / √(mean(x²) + ε), scaled by weight (C); nothing is subtracted, and there is no bias.
class Norm final : public Module {
 public:
  NormOptions options;
  Parameter weight;
  std::optional<Parameter> bias;  // (C), layer

  explicit Norm(std::int64_t width, const NormOptions& wanted = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
