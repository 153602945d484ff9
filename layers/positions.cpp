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
  Array table({T, C}, DType::float64);
  const auto values = table.mutable_values<double>();
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t c = 0; c < C; ++c) {
      const double rate =
          std::pow(10000.0, -static_cast<double>(c / 2 * 2) / static_cast<double>(C));
      const double angle = static_cast<double>(first + t) * rate;
      values[static_cast<std::size_t>(t * C + c)] = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
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
