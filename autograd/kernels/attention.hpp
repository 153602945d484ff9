#pragma once

#include "autograd/kernels/heads.hpp"

namespace tapestry {

struct AttentionShape {
  DType dtype = DType::float32;
  std::int64_t B = 0, H = 0, T = 0, S = 0, D = 0;  // batch, heads, queries, keys, head width
  double scale = 1;
  bool causal = false;      // query t sees the keys up to t + S - T
  std::int64_t window = 0;  // and only those nearer to it than this; 0: all
  Array key_padding;        // (B, S) int32, nonzero hides the key; or empty
  Array mask;               // added to the scores: broadcast to (B, H, T, S); or empty
};

// out = softmax(scale q kᵀ + mask) v by tiles of 64 queries and 64 keys that never leave the cache
// (Dao et al. 2022, arXiv 2205.14135, algorithm 1). For each query, highs (B, H, T) is its largest
// score and weights (B, H, T) is 1 / Σ e^(score - high): both 0 for one that sees no key, whose
// output is 0.
void attention_forward(const AttentionShape& shape, const HeadsView& q, const HeadsView& k,
                       const HeadsView& v, const HeadsView& out, Array& highs, Array& weights);

// Gradients (ibid., algorithm 4); each (batch, head) is the work of one thread.
struct AttentionGradients {
  HeadsView dq, dk, dv;  // written, not added to
};
void attention_backward(const AttentionShape& shape, const HeadsView& q, const HeadsView& k,
                        const HeadsView& v, const HeadsView& out, const HeadsView& dout,
                        const Array& highs, const Array& weights,
                        const AttentionGradients& gradients);

}  // namespace tapestry
