#include "autograd/ops/dropout.hpp"

#include "autograd/ops/elementwise.hpp"

namespace tapestry {

Tensor dropout(const Tensor& x, double rate, Random& random) {
  check_floating("dropout", x);
  require(rate >= 0 && rate < 1, "dropout: a rate of {} for {}", rate, to_string(x.shape()));
  Array draws(x.shape(), x.dtype());
  random.fill_uniform(draws, 0, 1);
  const Array mask = map_arrays(
      [rate](auto u) {
        using V = decltype(u);
        using T = Scalar<V>;
        return select(u < V(static_cast<T>(rate)), V(0), V(static_cast<T>(1 / (1 - rate))));
      },
      draws);
  const auto apply = [](auto v, auto m) { return v * m; };
  return record("dropout", map_arrays(apply, x.value(), mask), {x},
                [mask, apply](const Array& gradient, InputGradients& into) {
                  into.add(0, map_gradient(apply, gradient, mask));
                });
}

}  // namespace tapestry
