#include "layers/linear.hpp"

#include <cmath>

#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"
#include "layers/initial.hpp"

namespace tapestry {
namespace {

Array initial(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options) {
  if (options.standard_deviation > 0) return normal({out, in}, options.standard_deviation, init);
  const double squared =
      options.glorot ? 6.0 / static_cast<double>(in + out) : 1.0 / static_cast<double>(in);
  return uniform({out, in}, std::sqrt(squared), init);
}

Array initial_bias(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options) {
  if (!options.bias) return {};
  if (options.standard_deviation > 0 || options.glorot) return Array::zeros({out});
  return uniform({out}, 1 / std::sqrt(static_cast<double>(in)), init);
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options)
    : weight(initial(in, out, init, options), Role::weight),
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
