#pragma once

#include "layers/linear.hpp"

namespace tapestry {

enum class Activation { none, relu, gelu, gelu_tanh, silu, elu };
Tensor activate(Activation activation, const Tensor& x);

// Returns activation(a) ⊙ b, where a and b are the halves of each row: x (..., 2F) -> (..., F)
// (Shazeer 2020, arXiv 2002.05202, eqs. 5 and 6). Throws std::invalid_argument for rows of odd
// length.
Tensor activate_gated(Activation activation, const Tensor& x);

struct FeedForwardOptions {
  std::int64_t hidden = 0;  // F, the width between the two maps; 0: 4 C; of blocks, -1: none
  Activation activation = Activation::gelu;
  bool gated = false;
  LinearOptions expand{}, contract{};
};

// The feed-forward network of a transformer block, x (..., C) -> (..., C):
// contract(activation(expand(x))), or gated contract(activation(gate(x)) ⊙ up(x)).
class FeedForward final : public Module {
 public:
  Linear expand;    // (F, C), or gated (2F, C): gate, then up
  Linear contract;  // (C, F)
  Activation activation;
  bool gated;

  FeedForward(std::int64_t width, Random& init, const FeedForwardOptions& options = {});
  // Returns (..., C). `noise` is for the dropout of adapters; null: evaluation.
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

// A multilayer perceptron: x (..., widths.front()) -> (..., widths.back()). The activation follows
// each linear layer but the last, and the last if `activate_last`. The constructor throws
// std::invalid_argument for fewer than two widths.
class Mlp final : public Module {
 public:
  std::vector<Linear> layers;  // modules named "0", "1", …
  Activation activation;
  bool activate_last;

  struct Options {
    Activation activation = Activation::relu;
    bool activate_last = false;
  };
  Mlp(const std::vector<std::int64_t>& widths, Random& init, const Options& options);
  Mlp(const std::vector<std::int64_t>& widths, Random& init) : Mlp(widths, init, Options()) {}
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
