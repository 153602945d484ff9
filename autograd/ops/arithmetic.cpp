#include "autograd/ops/arithmetic.hpp"

#include <xtensor/xnoalias.hpp>

#include "autograd/ops/elementwise.hpp"
#include "autograd/xtensor.hpp"

namespace tapestry {
namespace {

constexpr auto sum = [](const auto& x, const auto& y) { return x + y; };
constexpr auto difference = [](const auto& x, const auto& y) { return x - y; };
constexpr auto product = [](const auto& x, const auto& y) { return x * y; };
constexpr auto quotient = [](const auto& x, const auto& y) { return x / y; };

// f is generic enough to combine vector registers and xtensor expressions alike: one shape takes
// our threaded loop, two shapes take xtensor's broadcasting.
template <class F>
Array combine(const char* op, const Array& a, const Array& b, F f) {
  if (a.shape() == b.shape()) return map_arrays(f, a, b);
  Array out(broadcast(op, a.shape(), b.shape()), a.dtype());
  dispatch(a.dtype(), [&]<class T>() {
    const auto x = xtensor_view<T>(a);
    const auto y = xtensor_view<T>(b);
    auto z = xtensor_view<T>(out);
    xt::noalias(z) = f(x, y);
  });
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  check_same_dtype("add", a, b);
  return record("add", combine("add", a.value(), b.value(), sum), {a, b},
                [](const Array& gradient, InputGradients& into) {
                  into.add(0, gradient);
                  into.add(1, gradient);
                });
}

Tensor subtract(const Tensor& a, const Tensor& b) {
  check_same_dtype("subtract", a, b);
  return record("subtract", combine("subtract", a.value(), b.value(), difference), {a, b},
                [](const Array& gradient, InputGradients& into) {
                  into.add(0, gradient);
                  if (into.wanted(1)) into.add(1, map_arrays([](auto g) { return -g; }, gradient));
                });
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  check_same_dtype("multiply", a, b);
  return record("multiply", combine("multiply", a.value(), b.value(), product), {a, b},
                [a = a.value(), b = b.value()](const Array& gradient, InputGradients& into) {
                  if (into.wanted(0)) into.add(0, combine("multiply", gradient, b, product));
                  if (into.wanted(1)) into.add(1, combine("multiply", gradient, a, product));
                });
}

Tensor divide(const Tensor& a, const Tensor& b) {
  check_same_dtype("divide", a, b);
  const Array y = combine("divide", a.value(), b.value(), quotient);
  return record("divide", y, {a, b},
                [y, b = b.value()](const Array& gradient, InputGradients& into) {
                  const Array da = combine("divide", gradient, b, quotient);
                  into.add(0, da);
                  if (into.wanted(1))
                    into.add(1, map_arrays([](auto d, auto v) { return -d * v; }, da, y));
                });
}

Tensor scale(const Tensor& x, double factor) {
  check_floating("scale", x);
  const auto times = [factor](auto v) { return v * Scalar<decltype(v)>(factor); };
  return record("scale", map_arrays(times, x.value()), {x},
                [times](const Array& gradient, InputGradients& into) {
                  into.add(0, map_gradient(times, gradient));
                });
}

}  // namespace tapestry
