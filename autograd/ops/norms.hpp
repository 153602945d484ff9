#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

// Returns weight (x - mean) / √(variance + epsilon) + bias, over the last axis: x (..., C), weight
// (C), bias (C) -> (..., C) (Ba et al. 2016, arXiv 1607.06450, eq. 4; biased variance). Throws
// std::invalid_argument for other shapes. Fused for a measured gain: the composition reads and
// writes the memory eight times.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon = 1e-5);

struct GroupNormOptions {
  std::int64_t groups = 1;  // must divide the channels
  double epsilon = 1e-5;
};

// Returns weight x̂ + bias for each channel, where x̂ is x (B, C, H, W) normalized by the mean and
// the variance over each group of C / groups channels of an image: weight (C), bias (C) -> (B, C,
// H, W) (Wu & He 2018, arXiv 1803.08494, §3.1; biased variance). Throws std::invalid_argument for
// other shapes, and unless the groups divide the channels. A composition of layer_norm.
Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const GroupNormOptions& options = {});

struct RmsNormOptions {
  double epsilon = 1e-5;
  // Only `columns` columns from `first` on are normalized, in groups of D, and the others are
  // copied. -1: all that follow.
  std::int64_t first = 0, columns = -1;
};

// Returns weight x / √(mean(x²) + epsilon) over each group of D columns: x (..., C), weight (D) ->
// (..., C) (Zhang & Sennrich 2019, arXiv 1910.07467, eq. 4; for queries and keys of heads: Henry et
// al. 2020, arXiv 2010.04245). Throws std::invalid_argument for other shapes, for columns outside
// of x, and unless D divides their number. Fused for a measured gain: the composition reads and
// writes the memory six times.
Tensor rms_norm(const Tensor& x, const Tensor& weight, const RmsNormOptions& options = {});

}  // namespace tapestry
