#include "autograd/ops/norms.hpp"

#include "autograd/kernels/norms.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/shaping.hpp"

namespace tapestry {

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_same_dtype("layer_norm", x, weight);
  check_same_dtype("layer_norm", x, bias);
  require(x.rank() >= 1 && weight.shape() == Shape{x.dim(-1)} && bias.shape() == weight.shape(),
          "layer_norm: x {} with weight {} and bias {}; expected (..., C), (C) and (C)", x.shape(),
          weight.shape(), bias.shape());
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

Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const GroupNormOptions& options) {
  check_same_dtype("group_norm", x, weight);
  check_same_dtype("group_norm", x, bias);
  require(x.rank() == 4 && weight.shape() == Shape{x.dim(1)} && bias.shape() == weight.shape(),
          "group_norm: x {} with weight {} and bias {}; expected (B, C, H, W), (C) and (C)",
          x.shape(), weight.shape(), bias.shape());
  const std::int64_t B = x.dim(0), C = x.dim(1), G = options.groups;
  require(G >= 1 && C % G == 0,
          "group_norm: {} groups do not divide {} channels; expected a divisor", G, C);
  const std::int64_t elements = C / G * x.dim(2) * x.dim(3);
  const Tensor rows =
      layer_norm(reshape(x, {B * G, elements}), Array::full({elements}, 1, x.dtype()),
                 Array::zeros({elements}, x.dtype()), options.epsilon);
  return reshape(rows, {B, C, x.dim(2), x.dim(3)}) * reshape(weight, {C, 1, 1}) +
         reshape(bias, {C, 1, 1});
}

namespace {

RmsNormShape check(const Tensor& x, const Tensor& weight, const RmsNormOptions& options) {
  check_same_dtype("rms_norm", x, weight);
  require(x.rank() >= 1 && weight.rank() == 1,
          "rms_norm: x {} with weight {}; expected x (..., C) and weight (D)", x.shape(),
          weight.shape());
  const std::int64_t C = x.dim(-1), D = weight.dim(0), first = options.first;
  const std::int64_t columns = options.columns < 0 ? C - first : options.columns;
  require(
      first >= 0 && columns >= 0 && first + columns <= C &&
          (D > 0 ? columns % D == 0 : columns == 0),
      "rms_norm: {} columns from {} of x {} with weight {}; expected columns of x that D divides",
      columns, first, x.shape(), weight.shape());
  return {.rows = C == 0 ? 0 : x.size() / C,
          .C = C,
          .first = first,
          .heads = D == 0 ? 0 : columns / D,
          .D = D};
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, const RmsNormOptions& options) {
  const RmsNormShape shape = check(x, weight, options);
  Array y(x.shape(), x.dtype()), scale({shape.rows * shape.heads}, x.dtype());
  rms_norm_forward(shape, x.value(), weight.value(), options.epsilon, y, scale);
  return record("rms_norm", y, {x, weight},
                [shape, x = x.value(), weight = weight.value(), scale](const Array& gradient,
                                                                       InputGradients& into) {
                  Array dx = reuse(gradient), dweight(weight.shape(), x.dtype());
                  rms_norm_backward(shape, gradient, x, weight, scale, dx, dweight);
                  into.add(0, dx);
                  into.add(1, dweight);
                });
}

}  // namespace tapestry
