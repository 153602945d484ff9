#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct RmsNormOptions {
  double epsilon = 1e-5;
  // Of rows that hold more than one vector: only `columns` columns from `first` on are normalised,
  // each D of them by themselves, and the others stay. -1: all that follow.
  std::int64_t first = 0, columns = -1;
};

// x (..., C), weight (D) -> weight x / √(mean(x²) + epsilon) (..., C), over the last axis or, with
// D < C, over each D columns of it (Zhang & Sennrich 2019, arXiv 1910.07467, eq. 4; heads' queries
// and keys: Henry et al. 2020, arXiv 2010.04245). std::invalid_argument unless D divides the
// columns. Fused for a measured gain: the composition walks the memory six times.
Tensor rms_norm(const Tensor& x, const Tensor& weight, const RmsNormOptions& options = {});

}  // namespace tapestry
