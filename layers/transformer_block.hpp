#pragma once

#include "layers/attention.hpp"
#include "layers/dropout.hpp"
#include "layers/feed_forward.hpp"
#include "layers/layer_norm.hpp"

namespace tapestry {

enum class NormPlacement { pre, post };

struct TransformerBlockOptions {
  std::int64_t width = 128, heads = 4;
  std::int64_t hidden = 0;  // of the feed-forward; 0: 4 · width
  NormPlacement norm = NormPlacement::pre;
  Activation activation = Activation::gelu;
  double dropout = 0;
  bool rotary_positions = false;
  LinearOptions input;     // query, key, value and expand
  LinearOptions residual;  // the projections that add to the residual stream
};

// x (B, T, C) -> (B, T, C).
// pre:  x + A(N(x)), then x + F(N(x))   (Xiong et al. 2020, arXiv 2002.04745)
// post: N(x + A(x)), then N(x + F(x))   (Vaswani et al. 2017)
class TransformerBlock final : public Module {
 public:
  LayerNorm attention_norm;
  MultiHeadAttention attention;
  LayerNorm feed_forward_norm;
  FeedForward feed_forward;
  Dropout dropout;
  NormPlacement norm;

  TransformerBlock(const TransformerBlockOptions& options, Random& init);

  struct Context {
    AttentionOptions attention;
    Random* noise = nullptr;         // dropout's; null: evaluate
    KeyValueCache* cache = nullptr;  // null: attend to x alone
  };
  Tensor forward(const Tensor& x, const Context& context) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
