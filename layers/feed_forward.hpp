#pragma once

#include "layers/linear.hpp"

namespace tapestry {

enum class Activation { none, relu, gelu, gelu_tanh };
Tensor activate(Activation activation, const Tensor& x);

struct FeedForwardOptions {
  std::int64_t hidden = 0;  // columns between the two maps; 0: 4 C
  Activation activation = Activation::gelu;
  LinearOptions expand{}, contract{};
};

// x (..., C) -> contract(activation(expand(x))) (..., C).
class FeedForward final : public Module {
 public:
  Linear expand;
  Linear contract;
  Activation activation;

  FeedForward(std::int64_t width, Random& init, const FeedForwardOptions& options = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
