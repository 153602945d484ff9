#pragma once

#include "layers/linear.hpp"

namespace tapestry {

enum class Activation { none, relu, gelu, gelu_tanh, silu };
Tensor activate(Activation activation, const Tensor& x);

// x (..., 2F), a gate a beside what it lets pass b -> activation(a) ⊙ b (..., F) (Shazeer 2020,
// arXiv 2002.05202, eqs. 5 and 6).
Tensor activate_gated(Activation activation, const Tensor& x);

struct FeedForwardOptions {
  std::int64_t hidden = 0;  // F, columns between the two maps; 0: 4 C
  Activation activation = Activation::gelu;
  bool gated = false;
  LinearOptions expand{}, contract{};
};

// x (..., C) -> contract(activation(expand(x))) (..., C), where a gated one has two maps, side by
// side in expand: contract(activation(gate(x)) ⊙ up(x)).
class FeedForward final : public Module {
 public:
  Linear expand;    // (F, C), or gated (2F, C): the gate's rows, then those of up
  Linear contract;  // (C, F)
  Activation activation;
  bool gated;

  FeedForward(std::int64_t width, Random& init, const FeedForwardOptions& options = {});
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;  // of the adapters' dropout
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
