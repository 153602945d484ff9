#include "layers/norm.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

Norm::Norm(std::int64_t width, const NormOptions& wanted)
    : options(wanted),
      weight(options.kind == NormKind::none ? Array() : Array::full({width}, 1), Role::norm) {
  if (options.kind == NormKind::layer) bias.emplace(Array::zeros({width}), Role::norm);
}

Tensor Norm::forward(const Tensor& x) const {
  const Scope scope(path());
  switch (options.kind) {
    case NormKind::layer:
      return layer_norm(x, weight, *bias, options.epsilon);
    case NormKind::rms:
      require(x.rank() >= 1 && x.dim(-1) == weight.tensor.size(), "norm: x {}; expected (..., {})",
              x.shape(), weight.tensor.size());
      return rms_norm(x, weight, {.epsilon = options.epsilon});
    case NormKind::none:
      return x;
  }
  throw_unhandled("norm");
}

void Norm::fields(FieldVisitor& visit) {
  if (!weight.tensor.value().empty()) visit("weight", weight);
  if (bias) visit("bias", *bias);
}

GroupNorm::GroupNorm(std::int64_t channels, const GroupNormOptions& wanted)
    : options(wanted),
      weight(Array::full({channels}, 1), Role::norm),
      bias(Array::zeros({channels}), Role::norm) {}

Tensor GroupNorm::forward(const Tensor& x) const {
  const Scope scope(path());
  return group_norm(x, weight, bias, options);
}

TAPESTRY_FIELDS(GroupNorm, weight, bias)

Tensor Dropout::forward(const Tensor& x, Random* noise) const {
  if (!noise || rate == 0) return x;
  const Scope scope(path());
  return dropout(x, rate, *noise);
}

}  // namespace tapestry
