#pragma once

#include "layers/embedding.hpp"
#include "layers/transformer_block.hpp"

namespace tapestry {

struct TransformerOptions {
  std::int64_t vocabulary = 0, context = 64;
  std::int64_t layers = 4;
  TransformerBlockOptions block{};  // its standard deviations are not used, see below
  bool tied_embeddings = true;      // the head uses the token embedding
  double initial_deviation = 0.02;  // of weights and embeddings
  bool recompute_blocks = false;    // activation checkpointing of each block
};

// A decoder-only transformer (GPT; Radford et al. 2019), which computes the logits of the next
// token: tokens (B, T) int32 in [0, V), T <= context -> (B, T, V). Weights start as in GPT-2: from
// N(0, initial_deviation²), those of the last maps of the branches divided by √(2 layers). Throws
// std::invalid_argument for tokens outside the vocabulary or beyond the context.
class Transformer final : public Module {
 public:
  TransformerOptions options;
  Embedding token_embedding;
  PositionalEncoding position_embedding;
  Dropout dropout;
  std::vector<TransformerBlock> blocks;
  std::optional<Norm> final_norm;  // only with pre-norm
  std::optional<Linear> head;      // null with tied embeddings

  Transformer(const TransformerOptions& wanted, Random& init);

  // Returns the logits. `noise` is for dropout; null: evaluation. `document_starts` (B, T) int32 is
  // the start of each token's document in its row: tokens attend to their own document, and
  // positions count from its start. Empty: one document in each row.
  Tensor forward(const Array& tokens, Random* noise = nullptr,
                 const Array& document_starts = {}) const;

  // Return the hidden states (B, T, C) that the head reads, after the final norm, and the logits
  // (…, V) of such states (…, C).
  Tensor hidden(const Array& tokens, Random* noise = nullptr,
                const Array& document_starts = {}) const;
  Tensor logits(const Tensor& hidden) const;

  // Return empty caches, one per block, and the logits of tokens that follow those in the caches,
  // to which the tokens are appended. For generation. Throws std::invalid_argument for another
  // number of caches.
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
  Tensor hidden(const Array& tokens, const Context& context) const;
  Tensor embedded(const Array& tokens, const Context& context) const;
  Tensor forward(std::size_t block, const Tensor& x, const Context& context) const;
};

// Converts the weights of a model's linear maps and its token embedding to q8_0 (see
// autograd/q8_0.hpp), for inference: 9 instead of 32 bits per weight, and no gradients. Norms,
// biases, learned positions and adapters stay as they are, and so do weights with rows that are not
// a multiple of 32. Returns the number of converted weights.
std::int64_t quantize_weights(Transformer& model);

}  // namespace tapestry
