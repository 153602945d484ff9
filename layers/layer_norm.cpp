#include "layers/layer_norm.hpp"

#include "autograd/ops/layer_norm.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

LayerNorm::LayerNorm(std::int64_t width)
    : weight(Array::full({width}, 1), Role::norm), bias(Array::zeros({width}), Role::norm) {}

Tensor LayerNorm::forward(const Tensor& x) const {
  const Scope scope(path());
  return layer_norm(x, weight, bias, epsilon);
}

void LayerNorm::fields(FieldVisitor& visit) {
  visit("weight", weight);
  visit("bias", bias);
}

}  // namespace tapestry
