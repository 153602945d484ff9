#include "layers/models/transformer.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/recompute.hpp"
#include "autograd/q8_0.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

TransformerBlockOptions block_options(const TransformerOptions& options) {
  const double branches = 2.0 * static_cast<double>(options.layers);
  TransformerBlockOptions block = options.block;
  for (LinearOptions* input : {&block.attention.input, &block.feed_forward.expand})
    input->standard_deviation = options.initial_deviation;
  for (LinearOptions* residual : {&block.attention.output, &block.feed_forward.contract})
    residual->standard_deviation = options.initial_deviation / std::sqrt(branches);
  return block;
}

// Returns the options of the positions. Sinusoidal positions have amplitude 1, so embeddings, which
// start much smaller, are multiplied by √C (Vaswani et al. 2017, §3.4).
PositionalEncodingOptions position_options(const TransformerOptions& options) {
  return {.kind = options.block.attention.positions,
          .context = options.context,
          .width = options.block.width,
          .standard_deviation = options.initial_deviation,
          .input_scale = std::sqrt(static_cast<double>(options.block.width))};
}

}  // namespace

Transformer::Transformer(const TransformerOptions& wanted, Random& init)
    : options(wanted),
      token_embedding(options.vocabulary, options.block.width, init, options.initial_deviation),
      position_embedding(position_options(options), init),
      dropout(options.block.dropout) {
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks.emplace_back(block_options(options), init);
  if (options.block.norm == NormPlacement::pre)
    final_norm.emplace(options.block.width, options.block.norms);
  if (options.tied_embeddings) return;
  head.emplace(options.block.width, options.vocabulary, init,
               LinearOptions{.bias = false, .standard_deviation = options.initial_deviation});
  head->weight.role = Role::head;
}

Tensor Transformer::forward(const Array& tokens, Random* noise,
                            const Array& document_starts) const {
  return forward(tokens, Context{.noise = noise, .document_starts = document_starts});
}

Tensor Transformer::forward(const Array& tokens, AttentionCaches& caches) const {
  return forward(tokens, Context{.caches = &caches});
}

Tensor Transformer::hidden(const Array& tokens, Random* noise, const Array& document_starts) const {
  return hidden(tokens, Context{.noise = noise, .document_starts = document_starts});
}

Tensor Transformer::forward(const Array& tokens, const Context& context) const {
  return logits(hidden(tokens, context));
}

Tensor Transformer::logits(const Tensor& hidden) const {
  const Scope scope(path());
  return head ? head->forward(hidden) : linear(hidden, token_embedding.weight);
}

Tensor Transformer::hidden(const Array& tokens, const Context& context) const {
  const Scope scope(path());
  const AttentionCaches* caches = context.caches;
  require(!caches || (!caches->empty() && caches->size() == blocks.size()),
          "transformer: {} caches for {} blocks; expected one for each",
          caches ? caches->size() : 0, blocks.size());
  const std::int64_t seen = caches ? caches->front()->length() : 0;
  require(tokens.rank() == 2 && seen + tokens.dim(1) <= options.context,
          "transformer: tokens {} after {} in the caches; expected (B, T) within a context of {}",
          tokens.shape(), seen, options.context);
  Tensor x = dropout.forward(embedded(tokens, context), context.noise);  // (B, T, C)
  for (std::size_t i = 0; i < blocks.size(); ++i) x = forward(i, x, context);
  return final_norm ? final_norm->forward(x) : x;
}

// Returns the embeddings with positions, (B, T, C).
Tensor Transformer::embedded(const Array& tokens, const Context& context) const {
  const Tensor x = token_embedding.forward(tokens);
  if (context.caches) return position_embedding.forward(x, context.caches->front()->lengths());
  if (context.document_starts.empty()) return position_embedding.forward(x);
  return position_embedding.forward(x, positions_in_documents(context.document_starts));
}

Tensor Transformer::forward(std::size_t block, const Tensor& input, const Context& context) const {
  AttentionCache* cache = context.caches ? (*context.caches)[block].get() : nullptr;
  const auto run = [this, block, cache, starts = context.document_starts](const Tensor& x,
                                                                          Random* noise) {
    return blocks[block].forward(
        x,
        {.attention = {.causal = true, .document_starts = starts}, .noise = noise, .cache = cache});
  };
  return options.recompute_blocks ? recompute(input, context.noise, run)
                                  : run(input, context.noise);
}

AttentionCaches Transformer::make_caches(std::int64_t batch) const {
  return tapestry::make_caches(blocks, batch, options.context);
}

TAPESTRY_FIELDS(Transformer, token_embedding, position_embedding, dropout, blocks, final_norm, head)

std::int64_t quantize_weights(Transformer& model) {
  std::vector<Parameter*> weights;
  for (Linear* linear : modules_of<Linear>(model)) weights.push_back(&linear->weight);
  for (Embedding* table : modules_of<Embedding>(model)) weights.push_back(&table->weight);
  std::erase_if(weights,
                [](const Parameter* weight) { return weight->tensor.dim(1) % Q8Block::size != 0; });
  for (Parameter* weight : weights) weight->convert(DType::q8_0);
  return std::ssize(weights);
}

}  // namespace tapestry
