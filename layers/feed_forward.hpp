#pragma once

#include "layers/linear.hpp"

namespace tapestry {

enum class Activation { none, relu, gelu, gelu_tanh };
Tensor activate(Activation activation, const Tensor& x);

// x (..., C) -> contract(activation(expand(x))) (..., C), with `hidden` columns between.
class FeedForward final : public Module {
 public:
  Linear expand;
  Linear contract;
  Activation activation;

  struct Options {
    Activation activation = Activation::gelu;
    LinearOptions expand, contract;
  };
  FeedForward(std::int64_t width, std::int64_t hidden, Random& init, const Options& options);
  FeedForward(std::int64_t width, std::int64_t hidden, Random& init)
      : FeedForward(width, hidden, init, Options()) {}
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
