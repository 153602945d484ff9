#pragma once

#include "optim/adam.hpp"

namespace tapestry {

// Schedule-free AdamW (Defazio et al. 2024, arXiv 2405.15682, algorithm 1), without a decay of the
// learning rate η. The parameters are y, at which gradients are computed; x, which is evaluated and
// saved, is the average of the points z. A step with the gradient g at y:
//   v = β₂ v + (1 - β₂) g²,  d = g / (√(v / (1 - β₂ᵗ)) + ε) + λ y
//   z = z - η d,  x = (1 - c) x + c z,  y = (1 - β₁) z + β₁ x
// c is η_max² / Σ η_max², where η_max is the largest learning rate so far. In terms of y and of the
// offset e = z - y this is
//   y = y + c e - η (1 - β₁ (1 - c)) d,  e = (1 - c) (e - η β₁ d),
// and x is an average of y as well, with the share c / (1 - β₁ (1 - c)) of the newest one.
class ScheduleFreeAdamW final : public Optimizer {
 public:
  using Options = AdamOptions;
  ScheduleFreeAdamW(std::vector<Parameter*> parameters, const Options& options);
  std::vector<std::string> slot_names(const Parameter&) const override {
    return {"offset", "second_moment"};
  }
  // "learning_rates" (2,): η_max, and Σ η_max².
  OptimizerState numbers() const override { return {{"learning_rates", rates_}}; }
  bool averages() const override { return true; }
  double average_share() const override;

 protected:
  void begin_step(double learning_rate) override;
  void update(const Update& update) const override;

 private:
  double newest() const;  // returns c

  Options options_;
  Array rates_ = Array::zeros({2}, DType::float64);
};

}  // namespace tapestry
