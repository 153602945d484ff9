#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // λ, decoupled as in AdamW
  bool decay_all = false;   // decays biases, norms and embeddings as well
};

// Adam (Kingma & Ba 2014, arXiv 1412.6980, algorithm 1) with decoupled weight decay: AdamW
// (Loshchilov & Hutter 2017, arXiv 1711.05101, algorithm 2).
//   m = β₁ m + (1 - β₁) g,  v = β₂ v + (1 - β₂) g²
//   θ = θ - η λ θ - η (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
class AdamW : public Optimizer {
 public:
  using Options = AdamOptions;
  AdamW(std::vector<Parameter*> parameters, const Options& options);

 protected:
  std::vector<std::string> slot_names() const override { return {"first_moment", "second_moment"}; }
  void update(const Update& update) const override;

 private:
  Options options_;
};

// Adam without weight decay: weight_decay and decay_all of its options are ignored.
class Adam final : public AdamW {
 public:
  Adam(std::vector<Parameter*> parameters, const Options& options);
};

}  // namespace tapestry
