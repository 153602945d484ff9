#include "layers/transformer_block.hpp"

#include "autograd/ops/arithmetic.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

TransformerBlock::TransformerBlock(const TransformerBlockOptions& options, Random& init)
    : attention_norm(options.width, options.norms),
      attention(options.width, init, options.attention),
      dropout(options.dropout),
      norm(options.norm) {
  if (options.feed_forward.hidden >= 0) {
    feed_forward_norm.emplace(options.width, options.norms);
    feed_forward.emplace(options.width, init, options.feed_forward);
  }
  if (options.source_width == 0) return;
  cross_attention_norm.emplace(options.width, options.norms);
  cross_attention.emplace(options.width, options.source_width, init, options.attention);
}

template <class Branch>
Tensor TransformerBlock::residual(const Tensor& x, const Norm& branch_norm, Branch branch,
                                  Random* noise) const {
  if (norm == NormPlacement::pre) return x + dropout.forward(branch(branch_norm.forward(x)), noise);
  return branch_norm.forward(x + dropout.forward(branch(x), noise));
}

Tensor TransformerBlock::forward(const Tensor& x, const Context& context) const {
  const Scope scope(path());
  const auto attend = [&](const Tensor& y) {
    return context.cache ? attention.forward(y, *context.cache, context.attention)
                         : attention.forward(y, context.attention, context.noise);
  };
  const auto attend_to_source = [&](const Tensor& y) {
    return cross_attention->attend(y, context.source, context.source_attention, context.noise);
  };
  const auto feed = [&](const Tensor& y) { return feed_forward->forward(y, context.noise); };
  Tensor y = residual(x, attention_norm, attend, context.noise);
  if (cross_attention) y = residual(y, *cross_attention_norm, attend_to_source, context.noise);
  return feed_forward ? residual(y, *feed_forward_norm, feed, context.noise) : y;
}

TAPESTRY_FIELDS(TransformerBlock, attention_norm, attention, cross_attention_norm, cross_attention,
                feed_forward_norm, feed_forward, dropout)

AttentionCaches make_caches(const std::vector<TransformerBlock>& blocks, std::int64_t batch,
                            std::int64_t tokens) {
  AttentionCaches caches;
  for (const TransformerBlock& block : blocks)
    caches.push_back(block.attention.make_cache(batch, tokens));
  return caches;
}

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
