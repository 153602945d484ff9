#pragma once

#include "layers/module.hpp"

namespace tapestry {

struct LinearOptions {
  bool bias = true;
  // Of the normal distribution the weight starts from, biases being 0. 0 means uniform in ±1/√in
  // for both, PyTorch's default.
  double standard_deviation = 0;
  // The weight uniform in ±√(6 / (in + out)) and biases 0 (Glorot & Bengio 2010, eq. 16).
  bool glorot = false;
};

// x (..., in) -> x · weightᵀ + bias (..., out). weight (out, in), bias (out).
class Linear final : public Module {
 public:
  Parameter weight;
  Parameter bias;  // an empty array without bias

  Linear(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
