#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;  // λ, decoupled
  bool decay_all = false;   // decays biases, norms and embeddings as well
};

// Stochastic gradient descent with momentum (Polyak 1964), in PyTorch's form:
//   v = μ v + g,  θ = θ - η v - η λ θ
class Sgd final : public Optimizer {
 public:
  using Options = SgdOptions;
  Sgd(std::vector<Parameter*> parameters, const Options& options);
  std::vector<std::string> slot_names(const Parameter&) const override { return {"velocity"}; }

 protected:
  void update(const Update& update) const override;

 private:
  Options options_;
};

}  // namespace tapestry
