#pragma once

#include "autograd/kernels/heads.hpp"

namespace tapestry {

// The same for features (B, H, F, times), whose last axis is time: a row is one feature at all
// times, and `time` is the stride from feature to feature.
using FeaturesView = HeadsView;

struct LinearAttentionShape {
  DType dtype = DType::float32;
  std::int64_t B = 0, H = 0, T = 0, S = 0, F = 0, D = 0;  // queries, keys, features, head width
  bool causal = false;                                    // query t sees the keys up to t, T = S
  double floor = 0;                                       // the least mean weight, see the op
  Array key_padding;     // (B, S) int32, nonzero hides the key; or empty
  Array key_log_scales;  // (B, H, S); or empty
  Array gate;            // (B, S, H) logits; or empty
  Array floored{};       // (B, H, T), nonzero where the floor counts whatever is larger; or empty
};

// What the keys and values so far add up to, so that later queries need neither: its size does not
// depend on how many they were.
struct LinearAttentionState {
  LinearAttentionState(std::int64_t batch, std::int64_t heads, std::int64_t features,
                       std::int64_t head_width, DType dtype);

  Array sums;  // (B, H, F, D + 1): Σ weight · φ(k) ⊗ [v, 1], weights in units of e^log_unit
  Array log_units;  // (B, H): the largest log weight of a key; -inf before the first
  Array weights;    // (B, H): Σ weight

  // Row b becomes what row rows[b] was.
  void select(const std::vector<std::int64_t>& rows);
};

struct LinearAttentionViews {
  FeaturesView q, k;
  HeadsView v, y;
};

// y_t = Σ_s w_ts (q_t · k_s) v_s / Σ_s w_ts (q_t · k_s). A causal one goes by chunks of 64 steps,
// between which only the sums are carried. scales (B, H, T) is one over the denominator: 0 for a
// query that sees no key, negative where the floor took the denominator's place.
void linear_attention_forward(const LinearAttentionShape& shape, const LinearAttentionViews& views,
                              Array& scales, LinearAttentionState* state);

// The gradients are written, not added to. Each (batch, head) is the work of one thread.
struct LinearAttentionGradients {
  HeadsView dy;         // given
  FeaturesView dq, dk;  // written
  HeadsView dv;
  Array dgate;  // (B, S, H), or empty
};
void linear_attention_backward(const LinearAttentionShape& shape, const LinearAttentionViews& views,
                               const Array& scales, const LinearAttentionGradients& gradients);

}  // namespace tapestry
