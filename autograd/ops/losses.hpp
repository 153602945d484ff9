#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct CrossEntropyOptions {
  std::int32_t ignore_index = -1;  // a target that counts neither in the loss nor in the mean
  double label_smoothing = 0;      // this share of the target is spread evenly over all V classes
  bool mean = true;                // false: the sum over the targets that count
};

// logits (N, V) or (B, T, V), targets (N) or (B, T) int32 in [0, V) -> a scalar in nats.
// Fused for stability: log-softmax and the choice of the target in one pass over the logits.
Tensor cross_entropy(const Tensor& logits, const Array& targets,
                     const CrossEntropyOptions& options = {});

// Element-wise, for one shape (...); reduce them with sum or mean.
// -[t log σ(x) + (1 - t) log(1 - σ(x))] in nats, for a target t in [0, 1]. Fused for stability.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets);
Tensor squared_error(const Tensor& prediction, const Tensor& target);  // (x - t)²
// KL(N(μ, σ²) ‖ N(0, 1)) = ½ (μ² + σ² - 1) - log σ, in nats a dimension (Kingma & Welling 2013,
// arXiv 1312.6114, appendix B).
Tensor gaussian_kl(const Tensor& mean, const Tensor& log_sigma);

}  // namespace tapestry
