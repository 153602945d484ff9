#include "autograd/ops/dropout.hpp"

#include "autograd/ops/elementwise.hpp"

namespace tapestry {

Tensor dropout(const Tensor& x, double rate, Random& random) {
  check_floating("dropout", x);
  require(rate >= 0 && rate < 1, "dropout: a rate of {} for {}", rate, to_string(x.shape()));
  Array mask(x.shape(), x.dtype());
  random.fill_mask(mask, rate, 1 / (1 - rate));
  const auto apply = [](auto v, auto m) { return v * m; };
  return record("dropout", map_arrays(apply, x.value(), mask), {x},
                [mask, apply](const Array& gradient, InputGradients& into) {
                  into.add(0, map_gradient(apply, gradient, mask));
                });
}

}  // namespace tapestry
