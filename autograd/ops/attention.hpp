#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct AttentionOptions {
  std::int64_t heads = 1;            // H, for inputs with several heads in each row
  std::int64_t key_value_heads = 0;  // G, which divides H; 0: as many as H
  bool causal = false;               // query t attends to the keys up to t' = t + S - T
  std::int64_t window = 0;           // only keys s with |t' - s| < window are visible; 0: all keys
  Array key_padding{};     // (B, S) int32, nonzero masks the key for all queries; or empty
  Array mask{};            // added to the scores; broadcasts to (B, H, T, S); or empty
  std::int64_t keys = -1;  // attends to the first `keys` of the S keys; -1: to all
  // (B, T) int32: query t attends to no key before document_starts[b, t], which must be at most t
  // and not decrease in a row; or empty. Needs causal and T = S.
  Array document_starts{};
  // (B) int32: `keys` for each example, without gradient; or empty. Excludes key_padding and mask.
  Array key_counts{};
};

// Returns softmax(q kᵀ / √D + mask) v (Vaswani et al. 2017, arXiv 1706.03762, eq. 1):
//   q (B, H, T, D), k and v (B, G, S, D) -> (B, H, T, D), or
//   q (B, T, H · D), k and v (B, S, G · D) -> (B, T, H · D).
// The result of a query without visible keys is 0, and so is its gradient. H / G consecutive heads
// share a head of keys and values without copies (Ainslie et al. 2023, arXiv 2305.13245, §2.2).
// Throws std::invalid_argument for shapes and options that do not fit. Fused for memory: the T × S
// scores are never stored.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

// Return scaled_dot_product_attention() of operands packed side by side in the last axis, without
// copies. Throw std::invalid_argument likewise.
Tensor packed_self_attention(const Tensor& qkv,  // (B, T, (H + 2 G) · D) -> (B, T, H · D)
                             const AttentionOptions& options = {});
Tensor packed_cross_attention(const Tensor& q, const Tensor& kv,  // (B, T, H · D), (B, S, 2 G · D)
                              const AttentionOptions& options = {});

// Returns the attention weights softmax(q kᵀ / √D + mask), for display: q (B, T, H · D) and
// k (B, S, G · D) -> (B, H, T, S). Stores all weights, and does not record. Throws
// std::invalid_argument for shapes and options that do not fit.
Array attention_weights(const Array& q, const Array& k, const AttentionOptions& options);

}  // namespace tapestry
