#include "layers/encoder.hpp"

#include "autograd/tape.hpp"

namespace tapestry {

Encoder::Encoder(std::int64_t layers, const TransformerBlockOptions& block, Random& init) {
  for (std::int64_t i = 0; i < layers; ++i) blocks.emplace_back(block, init);
}

Tensor Encoder::forward(const Tensor& x, const TransformerBlock::Context& context) const {
  const Scope scope(path());
  Tensor y = x;
  for (const TransformerBlock& block : blocks) y = block.forward(y, context);
  return y;
}

void Encoder::fields(FieldVisitor& visit) {
  for (std::size_t i = 0; i < blocks.size(); ++i) visit(std::to_string(i), blocks[i]);
}

}  // namespace tapestry
