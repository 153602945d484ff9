#include "autograd/ops/rms_norm.hpp"

#include "autograd/kernels/rms_norm.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

RmsNormShape check(const Tensor& x, const Tensor& weight, const RmsNormOptions& options) {
  check_same_dtype("rms_norm", x, weight);
  require(x.rank() >= 1 && weight.rank() == 1, "rms_norm: x {} with weight {}",
          to_string(x.shape()), to_string(weight.shape()));
  const std::int64_t C = x.dim(-1), D = weight.dim(0), first = options.first;
  const std::int64_t columns = options.columns < 0 ? C - first : options.columns;
  require(first >= 0 && columns >= 0 && first + columns <= C &&
              (D > 0 ? columns % D == 0 : columns == 0),
          "rms_norm: {} columns from {} of x {} with weight {}", columns, first,
          to_string(x.shape()), to_string(weight.shape()));
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
