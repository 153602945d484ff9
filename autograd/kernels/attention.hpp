#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// A view of the heads of a tensor: row t of head h of example b starts at data + b batch + h head +
// t time, in elements, and has D contiguous columns.
struct HeadsView {
  std::byte* data = nullptr;
  std::int64_t batch = 0, head = 0, time = 0;  // strides, in elements
};

// Returns the memory of an array for a view that is read or written.
inline std::byte* writable(const Array& array) { return const_cast<std::byte*>(array.raw()); }

struct AttentionShape {
  DType dtype = DType::float32;
  std::int64_t B = 0, H = 0, T = 0, S = 0, D = 0;  // batch, heads, queries, keys, head width
  double scale = 1;
  std::int64_t group = 1;   // number of consecutive heads that share a head of keys and values
  bool causal = false;      // query t attends to the keys up to t + S - T
  std::int64_t window = 0;  // only keys nearer than this are visible; 0: all keys
  Array key_padding{};      // (B, S) int32, nonzero masks the key; or empty
  Array mask{};             // added to the scores: broadcasts to (B, H, T, S); or empty
  Array document_starts{};  // (B, T) int32, causal: the first visible key of a query; or empty
  Array key_counts{};       // (B) int32, forward only: number of keys in place of S; or empty
};

struct AttentionViews {
  HeadsView q, k, v, y;
};

// Computes y = softmax(scale q kᵀ + mask) v by tiles of 64 queries and 64 keys that stay in the
// cache (Dao et al. 2022, arXiv 2205.14135, algorithm 1). Writes the largest score of each query to
// highs (B, H, T), and 1 / Σ e^(score - high) to weights (B, H, T). Both, and y, are 0 for a query
// without visible keys.
void attention_forward(const AttentionShape& shape, const AttentionViews& views, Array& highs,
                       Array& weights);

struct AttentionGradients {
  HeadsView dy;          // input
  HeadsView dq, dk, dv;  // outputs
};
// Computes and overwrites the gradients (ibid., algorithm 4). With at most 32 heads of keys in all
// examples, the keys of each head are divided into up to four chunks for the threads; each chunk
// but one takes memory of the size of dq.
void attention_backward(const AttentionShape& shape, const AttentionViews& views,
                        const Array& highs, const Array& weights,
                        const AttentionGradients& gradients);

// A view of features (B, H, F, times), whose last axis is time: a row is one feature at all times,
// and `time` is the stride between features.
using FeaturesView = HeadsView;

struct LinearAttentionShape {
  DType dtype = DType::float32;
  // Batch, heads, queries, keys, features, head width.
  std::int64_t B = 0, H = 0, T = 0, S = 0, F = 0, D = 0;
  bool causal = false;   // query t attends to the keys up to t, T = S
  double floor = 0;      // see LinearAttentionOptions
  Array key_padding;     // (B, S) int32, nonzero masks the key; or empty
  Array key_log_scales;  // (B, H, S); or empty
  Array gate;            // (B, S, H) logits; or empty
  Array floored{};       // (B, H, T), whether a query uses the floor: nonzero or 0; or empty
};

// The sums of all keys and values so far, which is all that later queries need. Its size does not
// depend on the number of keys.
struct LinearAttentionState {
  LinearAttentionState(std::int64_t batch, std::int64_t heads, std::int64_t features,
                       std::int64_t head_width, DType dtype);

  Array sums;  // (B, H, F, D + 1): Σ weight · φ(k) ⊗ [v, 1], weights in units of e^log_unit
  Array log_units;  // (B, H): largest log weight of a key; -inf without keys
  Array weights;    // (B, H): Σ weight

  // Replaces row b by row rows[b].
  void select(const std::vector<std::int64_t>& rows);
};

struct LinearAttentionViews {
  FeaturesView q, k;
  HeadsView v, y;
};

// Computes y_t = Σ_s w_ts (q_t · k_s) v_s / Σ_s w_ts (q_t · k_s), causal attention by chunks of 64
// steps. Writes 1 / denominator to scales (B, H, T): 0 for a query without visible keys, negative
// if the floor replaced the denominator. `state` may be null.
void linear_attention_forward(const LinearAttentionShape& shape, const LinearAttentionViews& views,
                              Array& scales, LinearAttentionState* state);

struct LinearAttentionGradients {
  HeadsView dy;         // input
  FeaturesView dq, dk;  // outputs
  HeadsView dv;
  Array dgate;  // (B, S, H), or empty
};
// Computes and overwrites the gradients. One thread computes each (batch, head).
void linear_attention_backward(const LinearAttentionShape& shape, const LinearAttentionViews& views,
                               const Array& scales, const LinearAttentionGradients& gradients);

}  // namespace tapestry
