#pragma once

#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

// A change b · a of the rows [first_row, first_row + R) of a weight (O, I), of rank r.
struct LowRankChange {
  Tensor a;  // (r, I)
  Tensor b;  // (R, r)
  std::int64_t first_row = 0;
};

// y (..., O), x (..., I) -> y + scale · x (Σ b a)ᵀ (..., O), each change on its own rows: what a
// linear map's output y becomes when its weight is changed (Hu et al. 2021, arXiv 2106.09685,
// eq. 3). std::invalid_argument for no change, and for shapes that do not fit.
// Fused: the composition would cut the output into columns and write it once more for each change.
// The memory of y is written where nothing else holds it: move it here.
Tensor add_low_rank(Tensor y, const Tensor& x, const std::vector<LowRankChange>& changes,
                    double scale);

}  // namespace tapestry
