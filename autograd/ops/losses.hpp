#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct CrossEntropyOptions {
  std::int32_t ignore_index = -1;  // targets of this value are ignored, also in the mean
  double label_smoothing = 0;      // part of the target probability spread over all V classes
  bool mean = true;                // false: the sum over the targets that are not ignored
};

// Returns the cross-entropy in nats, a scalar, 0 if all targets are ignored: logits (..., N, V),
// targets (..., N) int32. Throws std::invalid_argument for other shapes, and for targets outside
// [0, V) other than ignore_index. Fused for stability: log-softmax and the choice of the target in
// one pass.
Tensor cross_entropy(const Tensor& logits, const Array& targets,
                     const CrossEntropyOptions& options = {});

// Element-wise losses of equal shapes (...), which sum() or mean() reduces. They throw
// std::invalid_argument for shapes or dtypes that differ.

// Returns -[t log σ(x) + (1 - t) log(1 - σ(x))] in nats for targets t in [0, 1]. Fused for
// stability.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets);
Tensor squared_error(const Tensor& prediction, const Tensor& target);  // returns (x - t)²
// Returns KL(N(μ, σ²) ‖ N(0, 1)) = ½ (μ² + σ² - 1) - log σ in nats for each dimension (Kingma &
// Welling 2013, arXiv 1312.6114, appendix B).
Tensor gaussian_kl(const Tensor& mean, const Tensor& log_sigma);

}  // namespace tapestry
