#pragma once

#include "layers/dropout.hpp"
#include "layers/feed_forward.hpp"
#include "layers/multi_head_attention.hpp"
#include "layers/norm.hpp"

namespace tapestry {

enum class NormPlacement { pre, post };

struct TransformerBlockOptions {
  std::int64_t width = 128;       // C
  std::int64_t source_width = 0;  // C' of the sequence that is also attended to; 0: none
  MultiHeadOptions attention{};   // of self- and cross-attention alike
  FeedForwardOptions feed_forward{};
  NormPlacement norm = NormPlacement::pre;
  NormOptions norms{};
  double dropout = 0;
};

// x (B, T, C) -> (B, T, C): self-attention, cross-attention to a source (B, S, C') where the block
// has one (a decoder's), and a feed-forward, each a branch A of the residual stream.
// pre:  x + A(N(x))   (Xiong et al. 2020, arXiv 2002.04745)
// post: N(x + A(x))   (Vaswani et al. 2017)
class TransformerBlock final : public Module {
 public:
  Norm attention_norm;
  SelfAttention attention;
  std::optional<Norm> cross_attention_norm;
  std::optional<CrossAttention> cross_attention;
  Norm feed_forward_norm;
  FeedForward feed_forward;
  Dropout dropout;
  NormPlacement norm;

  TransformerBlock(const TransformerBlockOptions& options, Random& init);

  struct Context {
    AttentionOptions attention{};
    Random* noise = nullptr;          // of all dropouts; null: evaluate
    AttentionCache* cache = nullptr;  // null: attend to x alone
    KeyValue source{};                // as cross_attention.project gives it
    AttentionOptions source_attention{};
  };
  Tensor forward(const Tensor& x, const Context& context) const;
  void fields(FieldVisitor& visit) override;

 private:
  template <class Branch>
  Tensor residual(const Tensor& x, const Norm& branch_norm, Branch branch, Random* noise) const;
};

// A cache for each block's own attention, of that many tokens.
AttentionCaches make_caches(const std::vector<TransformerBlock>& blocks, std::int64_t batch,
                            std::int64_t tokens);

}  // namespace tapestry
