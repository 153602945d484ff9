#pragma once

#include "autograd/kernels/attention.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

struct LinearAttentionOptions {
  bool causal = false;     // query t attends to the keys up to t, T = S; else to all keys
  Array key_padding{};     // (B, S) int32, nonzero masks the key for all queries; or empty
  Array key_log_scales{};  // l (B, H, S): the keys are e^l · k; a constant; or empty
  double floor = 0;        // lower bound of the mean weight q · k of a query
  LinearAttentionState* state = nullptr;  // causal: read and updated, without gradient; or null
};

// Returns attention by products of features, in time and memory linear in T and S (Katharopoulos et
// al. 2020, arXiv 2006.16236, eqs. 5 and 9 to 12):
//   y_t = Σ_s w_ts (q_t · k_s) v_s / max(Σ_s w_ts (q_t · k_s), floor · Σ_s w_ts) over visible s,
// where w = 1, or with a gate the product (1 - g_s) g_(s+1) … g_t of g = σ(gate) (RFA-Gate; Peng et
// al. 2021, arXiv 2103.02143, §3). The result of a query without visible keys is 0.
//   q (B, H, F, T), k (B, H, F, S), v (B, S, H · D), gate (B, S, H) -> (B, T, H · D).
// Throws std::invalid_argument for shapes that do not fit, for a gate or state without causal, and
// for a floor with key_log_scales. Fused for memory and time: a composition holds T · F · D sums,
// or loops over slices whose gradients are as long as the sequence.
Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gate = {},
                        const LinearAttentionOptions& options = {});

// Returns √(1/D) [sin x, cos x]: x (..., D, T) -> (..., 2D, T) (Peng et al. 2021, arXiv 2103.02143,
// §2.2). Throws std::invalid_argument for fewer than two axes. Fused for a measured gain: sine and
// cosine share the reduction of their argument, and the gradient is computed from the result.
Tensor sine_features(const Tensor& x);

// Returns x / |x| for each row: x (..., D) -> (..., D). A row of zeros stays 0, and its gradient is
// 0. Throws std::invalid_argument for a scalar. Fused for a measured gain: the composition reads
// and writes the memory six times.
Tensor unit_rows(const Tensor& x);

}  // namespace tapestry
