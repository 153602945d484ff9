#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

// Adam (Kingma & Ba 2014, arXiv 1412.6980, algorithm 1). Its weight decay, when asked for, is
// decoupled: AdamW (Loshchilov & Hutter 2017, arXiv 1711.05101, algorithm 2).
//   m = β₁ m + (1 - β₁) g,  v = β₂ v + (1 - β₂) g²
//   θ = θ - η λ θ - η (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
class AdamW : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  std::vector<std::string> slot_names() const override { return {"first_moment", "second_moment"}; }
  void update(const Update& update) const override;
};

// The same without weight decay.
class Adam final : public AdamW {
 public:
  using AdamW::AdamW;

 protected:
  void update(const Update& update) const override;
};

}  // namespace tapestry
