#pragma once

#include "tests/support/arrays.hpp"

// Inputs of ops.
namespace tapestry {

// Returns an additive mask that hides the keys for which hide(row, column) is true.
inline Array infinite_where(const Shape& shape,
                            const std::function<bool(std::int64_t, std::int64_t)>& hide) {
  Array mask = Array::zeros(shape, f64);
  const std::int64_t columns = shape[-1], rows = shape[-2];
  for (std::int64_t i = 0; i < mask.size(); ++i)
    if (hide(i / columns % rows, i % columns)) mask.mutable_values<double>()[i] = -infinity;
  return mask;
}

// Returns numbers away from 0, where quotients lose precision in float32.
inline Array positive(const Shape& shape) {
  Array array = normal(shape);
  for (double& x : array.mutable_values<double>()) x = std::abs(x) + 0.1;
  return array;
}

}  // namespace tapestry
