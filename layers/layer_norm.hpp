#pragma once

#include "layers/module.hpp"

namespace tapestry {

// x (..., C) -> normalised over C, scaled by weight (C) and shifted by bias (C).
class LayerNorm final : public Module {
 public:
  Parameter weight;
  Parameter bias;
  double epsilon = 1e-5;

  explicit LayerNorm(std::int64_t width);
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
