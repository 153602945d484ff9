#include "autograd/ops/layer_norm.hpp"

#include "autograd/kernels/layer_norm.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_same_dtype("layer_norm", x, weight);
  check_same_dtype("layer_norm", x, bias);
  require(x.rank() >= 1 && weight.shape() == Shape{x.dim(-1)} && bias.shape() == weight.shape(),
          "layer_norm: x {} with weight {} and bias {}", to_string(x.shape()),
          to_string(weight.shape()), to_string(bias.shape()));
  const Shape rows{x.dim(-1) == 0 ? 0 : x.size() / x.dim(-1)};
  Array y(x.shape(), x.dtype()), mean(rows, x.dtype()), scale(rows, x.dtype());
  layer_norm_forward(x.value(), weight.value(), bias.value(), epsilon, y, mean, scale);
  return record("layer_norm", y, {x, weight, bias},
                [x = x.value(), weight = weight.value(), mean, scale](const Array& gradient,
                                                                      InputGradients& into) {
                  Array dx(x.shape(), x.dtype());
                  Array dweight(weight.shape(), x.dtype()), dbias(weight.shape(), x.dtype());
                  layer_norm_backward(gradient, x, weight, mean, scale, dx, dweight, dbias);
                  into.add(0, dx);
                  into.add(1, dweight);
                  into.add(2, dbias);
                });
}

}  // namespace tapestry
