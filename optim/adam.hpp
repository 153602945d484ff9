#pragma once

#include "optim/optimizer.hpp"

namespace tapestry {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // λ, decoupled as in AdamW
  bool decay_all = false;   // decays biases, norms and embeddings as well
};

// Returns the settings of Adam's moments, for options with the fields of AdamOptions.
template <class Options>
std::vector<Setting<Options>> adam_settings() {
  return {
      {"beta1",
       &Options::beta1,
       "decay of Adam's first moment; with schedule_free_adamw, weight of the average",
       {.low = 0, .high = 0.999999}},
      {"beta2", &Options::beta2, "decay of Adam's second moment", {.low = 0, .high = 0.999999}},
      {"epsilon", &Options::epsilon, "epsilon in Adam's denominator", {.low = 1e-30, .high = 1}}};
}

// Adam (Kingma & Ba 2014, arXiv 1412.6980, algorithm 1) with decoupled weight decay: AdamW
// (Loshchilov & Hutter 2017, arXiv 1711.05101, algorithm 2).
//   m = β₁ m + (1 - β₁) g,  v = β₂ v + (1 - β₂) g²
//   θ = θ - η λ θ - η (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
class AdamW : public Optimizer {
 public:
  using Options = AdamOptions;
  AdamW(std::vector<Parameter*> parameters, const Options& options);
  std::vector<std::string> slot_names(const Parameter&) const override {
    return {"first_moment", "second_moment"};
  }

 protected:
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
