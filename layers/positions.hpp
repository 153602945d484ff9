#pragma once

#include "layers/module.hpp"

namespace tapestry {

// How a transformer tells where a token stands: an encoding that is added to the embeddings,
// queries and keys turned by their positions (autograd/ops/rotary.hpp), or not at all.
enum class Positions { learned, sinusoidal, rotary, none };

// x (B, T, C) -> x + p (T, C) where p is the encoding of positions first, first + 1, ….

// p(pos, 2k) = sin(pos / 10000^(2k/C)), p(pos, 2k+1) = cos(the same) (Vaswani et al. 2017, §3.5).
class SinusoidalPositions final : public Module {
 public:
  Tensor forward(const Tensor& x, std::int64_t first = 0) const;
  void fields(FieldVisitor&) override {}
};

// p is rows of weight (context, C), which is learnt.
class LearnedPositions final : public Module {
 public:
  Parameter weight;

  LearnedPositions(std::int64_t context, std::int64_t width, Random& init,
                   double standard_deviation = 0.02);
  Tensor forward(const Tensor& x, std::int64_t first = 0) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
