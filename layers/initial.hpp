#pragma once

#include "autograd/random.hpp"

// Initial values of parameters, float32.
namespace tapestry {

inline Array normal(const Shape& shape, double standard_deviation, Random& init) {
  Array values(shape);
  init.fill_normal(values, 0, standard_deviation);
  return values;
}

inline Array uniform(const Shape& shape, double bound, Random& init) {
  Array values(shape);
  init.fill_uniform(values, -bound, bound);
  return values;
}

}  // namespace tapestry
