#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // AdamW's: decoupled
  bool decay_all = false;   // also biases, norms and embeddings
};

// Adam (Kingma & Ba 2014, arXiv 1412.6980, algorithm 1). Its weight decay, when asked for, is
// decoupled: AdamW (Loshchilov & Hutter 2017, arXiv 1711.05101, algorithm 2).
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

// The same without weight decay, whatever the options say of it.
class Adam final : public AdamW {
 public:
  Adam(std::vector<Parameter*> parameters, const Options& options);
};

}  // namespace tapestry
