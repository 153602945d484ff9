#pragma once

#include "layers/transformer_block.hpp"

namespace tapestry {

// x (B, T, C) -> (B, T, C): transformer blocks in which every token sees every other, but for what
// the context hides (padding, a window). A norm after the last, with pre-norm, is its owner's.
class Encoder final : public Module {
 public:
  std::vector<TransformerBlock> blocks;

  Encoder() = default;  // without blocks yet
  Encoder(std::int64_t layers, const TransformerBlockOptions& block, Random& init);
  Tensor forward(const Tensor& x, const TransformerBlock::Context& context) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
