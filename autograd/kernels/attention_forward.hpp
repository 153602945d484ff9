#pragma once

#include "autograd/kernels/heads.hpp"

namespace tapestry {

struct AttentionShape {
  DType dtype = DType::float32;
  std::int64_t B = 0, H = 0, T = 0, S = 0, D = 0;  // batch, heads, queries, keys, head width
  double scale = 1;
  std::int64_t group = 1;   // so many heads in a row share a head of keys and values
  bool causal = false;      // query t sees the keys up to t + S - T
  std::int64_t window = 0;  // and only those nearer to it than this; 0: all
  Array key_padding{};      // (B, S) int32, nonzero hides the key; or empty
  Array mask{};             // added to the scores: broadcast to (B, H, T, S); or empty
  Array document_starts{};  // (B, T) int32, causal: no query sees a key before its own; or empty
  Array key_counts{};  // (B) int32, forward: example b has so many keys in place of S; or empty
};

struct AttentionViews {
  HeadsView q, k, v, y;
};

// y = softmax(scale q kᵀ + mask) v by tiles of 64 queries and 64 keys that never leave the cache
// (Dao et al. 2022, arXiv 2205.14135, algorithm 1). For each query, highs (B, H, T) is its largest
// score and weights (B, H, T) is 1 / Σ e^(score - high). Both are 0 for a query that sees no key,
// and so is its output.
void attention_forward(const AttentionShape& shape, const AttentionViews& views, Array& highs,
                       Array& weights);

// The gradients (ibid., algorithm 4) are written, not added to. Where there are fewer than 64 heads
// in all, the keys of each are cut into as many as four pieces, the work of a thread each, which
// takes the memory of dq again for all but one.
struct AttentionGradients {
  HeadsView dy;          // given
  HeadsView dq, dk, dv;  // written
};
void attention_backward(const AttentionShape& shape, const AttentionViews& views,
                        const Array& highs, const Array& weights,
                        const AttentionGradients& gradients);

}  // namespace tapestry
