#include "layers/positions.hpp"

#include <cmath>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"
#include "layers/initial.hpp"

namespace tapestry {

Tensor SinusoidalPositions::forward(const Tensor& x, std::int64_t first) const {
  const Scope scope(path());
  const std::int64_t T = x.dim(-2), C = x.dim(-1);
  std::vector<double> rates;
  for (std::int64_t c = 0; c < C; ++c)
    rates.push_back(std::pow(10000.0, -static_cast<double>(c / 2 * 2) / static_cast<double>(C)));
  Array table({T, C}, DType::float64);
  double* value = table.mutable_values<double>().data();
  for (std::int64_t t = 0; t < T; ++t)
    for (std::size_t c = 0; c < rates.size(); ++c) {
      const double angle = static_cast<double>(first + t) * rates[c];
      *value++ = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  return x + table.to(x.dtype());
}

LearnedPositions::LearnedPositions(std::int64_t context, std::int64_t width, Random& init,
                                   double standard_deviation)
    : weight(normal({context, width}, standard_deviation, init), Role::embedding) {}

Tensor LearnedPositions::forward(const Tensor& x, std::int64_t first) const {
  const Scope scope(path());
  return x + slice(weight, 0, first, first + x.dim(-2));
}

void LearnedPositions::fields(FieldVisitor& visit) { visit("weight", weight); }

}  // namespace tapestry
