#pragma once

#include "layers/linear.hpp"

namespace tapestry {

// A simple recurrent layer (Elman 1990, "Finding Structure in Time"):
// h_t = tanh(input(x_t) + W h_(t-1)), W being `hidden` (H, H), started as PyTorch's RNN.
class Recurrent final : public Module {
 public:
  Linear input;   // (H, C), with the bias
  Linear hidden;  // (H, H), without

  Recurrent(std::int64_t width, std::int64_t state_width, Random& init, bool bias = true);

  // x (B, T, C), h_0 (B, H) or empty for zeros -> h_1 … h_T (B, T, H).
  Tensor forward(const Tensor& x, const Tensor& initial = {}) const;

  // One step of the same: x_t (B, C), h_(t-1) (B, H) -> h_t (B, H).
  Tensor step(const Tensor& x, const Tensor& state) const;

  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
