#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

// Stochastic gradient descent with momentum (Polyak 1964), as PyTorch counts it:
//   v = μ v + g,  θ = θ - η v - η λ θ
class Sgd final : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  std::vector<std::string> slot_names() const override { return {"velocity"}; }
  void update(const Update& update) const override;
};

}  // namespace tapestry
