#include "autograd/ops/dropout.hpp"

#include "autograd/ops/elementwise.hpp"

namespace tapestry {

Tensor dropout(const Tensor& x, double rate, Random& random) {
  check_floating("dropout", x);
  require(rate >= 0 && rate < 1, "dropout: a rate of {} for {}", rate, to_string(x.shape()));
  const Random before = random;
  Array y(x.shape(), x.dtype());
  random.mask(x.value(), y, rate, 1 / (1 - rate));
  // The mask is drawn again rather than kept: a number costs less than its way to memory and back.
  return record("dropout", y, {x}, [before, rate](const Array& gradient, InputGradients& into) {
    Array dx = reuse(gradient);
    Random(before).mask(gradient, dx, rate, 1 / (1 - rate));
    into.add(0, dx);
  });
}

}  // namespace tapestry
