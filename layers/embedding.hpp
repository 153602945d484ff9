#pragma once

#include "layers/module.hpp"

namespace tapestry {

// tokens (...) int32 in [0, V) -> (..., C), a row of weight (V, C) each.
class Embedding final : public Module {
 public:
  Parameter weight;

  Embedding(std::int64_t vocabulary, std::int64_t width, Random& init,
            double standard_deviation = 0.02);
  Tensor forward(const Array& tokens) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
