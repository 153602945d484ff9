#pragma once

#include "tests/support/arrays.hpp"

// What ops are given.
namespace tapestry {

// An additive mask that hides the keys for which hide(row, column) holds.
inline Array infinite_where(const Shape& shape,
                            const std::function<bool(std::int64_t, std::int64_t)>& hide) {
  Array mask = Array::zeros(shape, f64);
  const std::int64_t columns = shape[-1], rows = shape[-2];
  for (std::int64_t i = 0; i < mask.size(); ++i)
    if (hide(i / columns % rows, i % columns)) mask.mutable_values<double>()[i] = -infinity;
  return mask;
}

// Away from 0, where float32 could not tell one quotient's gradient from another's.
inline Array positive(const Shape& shape) {
  Array array = normal(shape);
  for (double& x : array.mutable_values<double>()) x = std::abs(x) + 0.1;
  return array;
}

}  // namespace tapestry
