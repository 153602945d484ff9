#pragma once

#include "layers/embedding.hpp"
#include "layers/transformer_block.hpp"

namespace tapestry {

struct TransformerOptions {
  std::int64_t vocabulary = 0, context = 64;
  std::int64_t layers = 4;
  TransformerBlockOptions block{};  // whose standard deviations are overwritten, see below
  bool tied_embeddings = true;      // the head reads out with the token embedding
  bool recompute_blocks = false;    // keep only their inputs for the backward pass
};

// A decoder-only transformer (GPT; Radford et al. 2019): the logits of the next token.
// tokens (B, T) int32 in [0, V), T <= context -> (B, T, V). Starts as GPT-2 does: N(0, 0.02²), the
// projections into the residual stream divided by √(2 layers).
class Transformer final : public Module {
 public:
  TransformerOptions options;
  Embedding token_embedding;
  PositionalEncoding position_embedding;
  Dropout dropout;
  std::vector<TransformerBlock> blocks;
  std::optional<Norm> final_norm;  // with pre-norm
  std::optional<Linear> head;      // without tied embeddings

  Transformer(const TransformerOptions& wanted, Random& init);

  // `noise` is dropout's; null: evaluate. Where rows hold several documents, `document_starts`
  // (B, T) says of each token where its own starts: nothing is seen of the others, and positions
  // begin anew.
  Tensor forward(const Array& tokens, Random* noise = nullptr,
                 const Array& document_starts = {}) const;

  // The same for tokens that follow those in the caches, one cache a block: generation.
  AttentionCaches make_caches(std::int64_t batch) const;
  Tensor forward(const Array& tokens, AttentionCaches& caches) const;

  void fields(FieldVisitor& visit) override;

 private:
  struct Context {
    Random* noise = nullptr;
    AttentionCaches* caches = nullptr;
    Array document_starts{};
  };
  Tensor forward(const Array& tokens, const Context& context) const;
  Tensor embedded(const Array& tokens, const Context& context) const;
  Tensor forward(std::size_t block, const Tensor& x, const Context& context) const;
};

}  // namespace tapestry
