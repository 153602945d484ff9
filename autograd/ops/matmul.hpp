#pragma once

#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

struct MatmulOptions {
  bool transpose_a = false;  // swaps the last two axes of a, without a copy
  bool transpose_b = false;
};

// Returns the matrix product a (..., M, K) · b (..., K, N) -> (..., M, N). Leading axes broadcast.
// Throws std::invalid_argument for fewer than two axes or dtypes that differ, and if the inner
// dimensions differ or the leading axes do not broadcast.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});

// Returns x · weightᵀ + bias: x (..., I), weight (O, I), bias (O) or empty -> (..., O). Throws
// std::invalid_argument for other shapes. Fused so that the bias costs no pass over the memory, and
// all leading axes are one product. A weight of q8_0 is a constant with x and bias in float32; in
// float32 precision it gives the bits of the weight converted to float32.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// A low-rank change b · a, of rank r, of the rows [first_row, first_row + R) of a weight (O, I).
struct LowRankChange {
  Tensor a;  // (r, I)
  Tensor b;  // (R, r)
  std::int64_t first_row = 0;
};

// Returns y + scale · x (Σ b a)ᵀ, where each change acts on its rows: y (..., O), x (..., I) ->
// (..., O). Adds changes of a linear map's weight to the map's output y (LoRA; Hu et al. 2021,
// arXiv 2106.09685, eq. 3). Throws std::invalid_argument without changes, and for shapes that do
// not fit. Fused: the composition writes the output once more for each change. Move y into the
// call, so that its memory is reused.
Tensor add_low_rank(Tensor y, const Tensor& x, const std::vector<LowRankChange>& changes,
                    double scale);

}  // namespace tapestry
