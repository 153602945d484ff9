#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct AttentionOptions {
  std::int64_t heads = 1;   // for inputs whose columns hold several heads side by side
  bool causal = false;      // query t sees the keys up to t' = t + S - T
  std::int64_t window = 0;  // and only the keys s with |t' - s| < window; 0: all
  Array key_padding{};      // (B, S) int32, nonzero hides that key from every query; or empty
  Array mask{};             // added to the scores, broadcasts to (B, H, T, S); a constant; or empty
  std::int64_t keys = -1;   // only the first so many of the S keys are seen; -1: all of them
};

// softmax(q kᵀ / √D + mask) v (Vaswani et al. 2017, arXiv 1706.03762, eq. 1). A query that sees no
// key gets zeros and gives zero gradient. Fused for memory: the T × S scores are never stored.
//   q (B, H, T, D), k and v (B, H, S, D) -> (B, H, T, D), or with C = heads · D
//   q (B, T, C),    k and v (B, S, C)    -> (B, T, C).
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

// The same with operands packed side by side in the last axis, read in place:
Tensor packed_self_attention(const Tensor& qkv,  // (B, T, 3C) -> (B, T, C)
                             const AttentionOptions& options = {});
Tensor packed_cross_attention(const Tensor& q, const Tensor& kv,  // (B, T, C), (B, S, 2C)
                              const AttentionOptions& options = {});

// The weights themselves, for people to look at: softmax(q kᵀ / √D + mask), q (B, T, C) and
// k (B, S, C) -> (B, H, T, S). It stores all of them, and does not record.
Array attention_weights(const Array& q, const Array& k, const AttentionOptions& options);

}  // namespace tapestry
