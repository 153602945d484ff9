#pragma once

#include "layers/transformer_block.hpp"

namespace tapestry {

// Transformer blocks in which every token sees every other, but for padding and what is outside a
// window: x (B, T, C) -> (B, T, C). With pre-norm, the owner normalises what comes out.
class Encoder final : public Module {
 public:
  std::vector<TransformerBlock> blocks;

  Encoder() = default;  // without blocks yet
  Encoder(std::int64_t layers, const TransformerBlockOptions& block, Random& init);
  Tensor forward(const Tensor& x, const TransformerBlock::Context& context) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
