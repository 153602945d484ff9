#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

struct RotaryOptions {
  std::int64_t head_width = 0;  // D, of heads side by side in a row; 0: the row is one head
  std::int64_t columns = -1;  // only the first so many, which are whole heads, are turned; -1: all
  std::int64_t first = 0;     // the position of the first row
};

// Rotary positions: x (..., T, C) -> (..., T, C) with columns 2k and 2k + 1 of every head turned by
// the angle position · 10000^(-2k/D) (Su et al. 2021, arXiv 2104.09864, eq. 34), so that products
// of queries with keys depend on the difference of their positions. std::invalid_argument unless D
// is even and heads fill the columns. Fused: the composition would copy x six times.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

}  // namespace tapestry
