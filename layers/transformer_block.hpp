#pragma once

#include "layers/mlp.hpp"
#include "layers/multi_head_attention.hpp"
#include "layers/norm.hpp"

namespace tapestry {

enum class NormPlacement { pre, post };

struct TransformerBlockOptions {
  std::int64_t width = 128;       // C
  std::int64_t source_width = 0;  // C' of the source of cross-attention; 0: none
  MultiHeadOptions attention{};   // options of self-attention and cross-attention
  FeedForwardOptions feed_forward{};
  NormPlacement norm = NormPlacement::pre;
  NormOptions norms{};
  double dropout = 0;
};

// A transformer block, x (B, T, C) -> (B, T, C): self-attention, cross-attention to a source
// (B, S, C') in a decoder, and a feed-forward network, each a branch A of the residual stream:
// pre:  x + A(N(x))   (Xiong et al. 2020, arXiv 2002.04745)
// post: N(x + A(x))   (Vaswani et al. 2017, arXiv 1706.03762)
class TransformerBlock final : public Module {
 public:
  Norm attention_norm;
  SelfAttention attention;
  std::optional<Norm> cross_attention_norm;
  std::optional<CrossAttention> cross_attention;
  std::optional<Norm> feed_forward_norm;
  std::optional<FeedForward> feed_forward;  // none if its hidden width is -1
  Dropout dropout;
  NormPlacement norm;

  TransformerBlock(const TransformerBlockOptions& options, Random& init);

  struct Context {
    AttentionOptions attention{};
    Random* noise = nullptr;          // noise of dropout; null: evaluation
    AttentionCache* cache = nullptr;  // null: attends to x only
    KeyValue source{};                // the result of cross_attention.project()
    AttentionOptions source_attention{};
  };
  Tensor forward(const Tensor& x, const Context& context) const;
  void fields(FieldVisitor& visit) override;

 private:
  template <class Branch>
  Tensor residual(const Tensor& x, const Norm& branch_norm, Branch branch, Random* noise) const;
};

// Returns a cache for the self-attention of each block, for up to `tokens` tokens.
AttentionCaches make_caches(const std::vector<TransformerBlock>& blocks, std::int64_t batch,
                            std::int64_t tokens);

// A stack of transformer blocks without causal mask: x (B, T, C) -> (B, T, C). With pre-norm, the
// module that owns the encoder must normalize the result.
class Encoder final : public Module {
 public:
  std::vector<TransformerBlock> blocks;

  Encoder() = default;  // without blocks
  Encoder(std::int64_t layers, const TransformerBlockOptions& block, Random& init);
  Tensor forward(const Tensor& x, const TransformerBlock::Context& context) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
