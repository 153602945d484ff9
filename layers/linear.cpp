#include "layers/linear.hpp"

#include <cmath>

#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"
#include "layers/initial.hpp"

namespace tapestry {
namespace {

Array initial(const Shape& shape, std::int64_t in, double standard_deviation, Random& init) {
  if (standard_deviation > 0) return normal(shape, standard_deviation, init);
  return uniform(shape, 1 / std::sqrt(static_cast<double>(in)), init);
}

Array initial_bias(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options) {
  if (!options.bias) return {};
  if (options.standard_deviation > 0) return Array::zeros({out});
  return uniform({out}, 1 / std::sqrt(static_cast<double>(in)), init);
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options)
    : weight(initial({out, in}, in, options.standard_deviation, init), Role::weight),
      bias(initial_bias(in, out, init, options), Role::bias) {}

Tensor Linear::forward(const Tensor& x) const {
  const Scope scope(path());
  return linear(x, weight, bias);
}

void Linear::fields(FieldVisitor& visit) {
  visit("weight", weight);
  if (!bias.tensor.value().empty()) visit("bias", bias);
}

}  // namespace tapestry
