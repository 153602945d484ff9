#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct AttentionOptions {
  std::int64_t heads = 1;            // H, for inputs whose columns hold several heads side by side
  std::int64_t key_value_heads = 0;  // G, which divides H, for the same; 0: as many as H
  bool causal = false;               // query t sees the keys up to t' = t + S - T
  std::int64_t window = 0;           // and only the keys s with |t' - s| < window; 0: all
  Array key_padding{};     // (B, S) int32, nonzero hides that key from every query; or empty
  Array mask{};            // added to the scores, broadcasts to (B, H, T, S); a constant; or empty
  std::int64_t keys = -1;  // only the first so many of the S keys are seen; -1: all of them
  // (B, T) int32, causal and T = S: query t sees no key before its document_starts[b, t], which
  // never falls in a row; or empty
  Array document_starts{};
  Array key_counts{};  // (B) int32, such a number for each example, without gradient; or empty
};

// softmax(q kᵀ / √D + mask) v (Vaswani et al. 2017, arXiv 1706.03762, eq. 1). A query that sees no
// key gets zeros and gives zero gradient. Fused for memory: the T × S scores are never stored.
//   q (B, H, T, D), k and v (B, G, S, D) -> (B, H, T, D), or
//   q (B, T, H · D), k and v (B, S, G · D) -> (B, T, H · D).
// With fewer heads of keys and values than of queries, each H / G in a row share one, in place
// (Ainslie et al. 2023, arXiv 2305.13245, §2.2).
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

// The same with operands packed side by side in the last axis, read in place:
Tensor packed_self_attention(const Tensor& qkv,  // (B, T, (H + 2 G) · D) -> (B, T, H · D)
                             const AttentionOptions& options = {});
Tensor packed_cross_attention(const Tensor& q, const Tensor& kv,  // (B, T, H · D), (B, S, 2 G · D)
                              const AttentionOptions& options = {});

// The weights themselves, for people to look at: softmax(q kᵀ / √D + mask), q (B, T, H · D) and
// k (B, S, G · D) -> (B, H, T, S). It stores all of them, and does not record.
Array attention_weights(const Array& q, const Array& k, const AttentionOptions& options);

}  // namespace tapestry
