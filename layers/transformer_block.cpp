#include "layers/transformer_block.hpp"

#include "autograd/ops/arithmetic.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

TransformerBlock::TransformerBlock(const TransformerBlockOptions& options, Random& init)
    : attention_norm(options.width),
      attention(options.width, options.heads, init,
                {.input = options.input,
                 .output = options.residual,
                 .rotary_positions = options.rotary_positions}),
      feed_forward_norm(options.width),
      feed_forward(options.width, options.hidden > 0 ? options.hidden : 4 * options.width, init,
                   {options.activation, options.input, options.residual}),
      dropout(options.dropout),
      norm(options.norm) {}

Tensor TransformerBlock::forward(const Tensor& x, const Context& context) const {
  const Scope scope(path());
  const auto attend = [&](const Tensor& y) {
    return dropout.forward(context.cache ? attention.forward(y, *context.cache, context.attention)
                                         : attention.forward(y, context.attention),
                           context.noise);
  };
  const auto feed = [&](const Tensor& y) {
    return dropout.forward(feed_forward.forward(y), context.noise);
  };
  if (norm == NormPlacement::pre) {
    const Tensor attended = x + attend(attention_norm.forward(x));
    return attended + feed(feed_forward_norm.forward(attended));
  }
  const Tensor attended = attention_norm.forward(x + attend(x));
  return feed_forward_norm.forward(attended + feed(attended));
}

void TransformerBlock::fields(FieldVisitor& visit) {
  visit("attention_norm", attention_norm);
  visit("attention", attention);
  visit("feed_forward_norm", feed_forward_norm);
  visit("feed_forward", feed_forward);
  visit("dropout", dropout);
}

}  // namespace tapestry
