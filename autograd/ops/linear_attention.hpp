#pragma once

#include "autograd/kernels/linear_attention.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

struct LinearAttentionOptions {
  bool causal = false;     // query t sees the keys up to t, T = S; else it sees all of them
  Array key_padding{};     // (B, S) int32, nonzero hides that key from every query; or empty
  Array key_log_scales{};  // l (B, H, S): k stands for e^l · k; a constant; or empty
  double floor = 0;        // the least mean weight q · k that a query may give the keys it sees
  LinearAttentionState* state = nullptr;  // causal: continues from it and updates it; no gradient
};

// Attention by products of features, in time and memory linear in T and S (Katharopoulos et al.
// 2020, arXiv 2006.16236, eqs. 5 and 9-12):
//   y_t = Σ_s w_ts (q_t · k_s) v_s / max(Σ_s w_ts (q_t · k_s), floor · Σ_s w_ts) over visible s,
// w = 1, or with a gate the product (1 - g_s) g_(s+1) … g_t of g = σ(gate) (RFA-Gate;
// Peng et al. 2021, arXiv 2103.02143, §3). A query that sees no key gets zeros.
//   q (B, H, F, T), k (B, H, F, S), v (B, S, H · D), gate (B, S, H) -> (B, T, H · D).
// A gate needs causal, a floor excludes scales. Fused for memory and time: what composes it either
// holds T · F · D sums or loops over slices, each of whose gradients is as long as the sequence.
Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gate = {},
                        const LinearAttentionOptions& options = {});

}  // namespace tapestry
