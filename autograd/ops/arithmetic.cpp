#include "autograd/ops/arithmetic.hpp"

#include "autograd/kernels/strided.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

constexpr auto sum_of_two = [](auto x, auto y) { return x + y; };
constexpr auto difference_of_two = [](auto x, auto y) { return x - y; };
constexpr auto product_of_two = [](auto x, auto y) { return x * y; };
constexpr auto quotient_of_two = [](auto x, auto y) { return x / y; };

// Returns f(a, b) for shapes that broadcast to each other.
template <class F>
Array combine(const char* op, const Array& a, const Array& b, F f) {
  if (a.shape() == b.shape()) return map_arrays(f, a, b);
  const Shape shape = broadcast(op, a.shape(), b.shape());
  Array out(shape, a.dtype());
  dispatch(a.dtype(), [&]<class T>() {
    const T *x = a.values<T>().data(), *y = b.values<T>().data();
    T* z = out.mutable_values<T>().data();
    const Walk<2> walk{shape,
                       {broadcast_strides(a.shape(), shape), broadcast_strides(b.shape(), shape)}};
    for_each_run(walk, [=](std::int64_t place, auto from, auto strides, std::int64_t n) {
      const auto [i, j] = from;
      if (strides[0] == 0)
        map_span(n, {y + j}, z + place, [f, v = Simd<T>(x[i])](auto w) { return f(v, w); });
      else if (strides[1] == 0)
        map_span(n, {x + i}, z + place, [f, w = Simd<T>(y[j])](auto v) { return f(v, w); });
      else
        map_span(n, {x + i, y + j}, z + place, f);
    });
  });
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  check_same_dtype("add", a, b);
  return record("add", combine("add", a.value(), b.value(), sum_of_two), {a, b},
                [](const Array& gradient, InputGradients& into) {
                  into.add(0, gradient);
                  into.add(1, gradient);
                });
}

Tensor subtract(const Tensor& a, const Tensor& b) {
  check_same_dtype("subtract", a, b);
  return record("subtract", combine("subtract", a.value(), b.value(), difference_of_two), {a, b},
                [](const Array& gradient, InputGradients& into) {
                  into.add(0, gradient);
                  if (into.wanted(1)) into.add(1, map_arrays([](auto g) { return -g; }, gradient));
                });
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  check_same_dtype("multiply", a, b);
  return record("multiply", combine("multiply", a.value(), b.value(), product_of_two), {a, b},
                [a = a.value(), b = b.value()](const Array& gradient, InputGradients& into) {
                  if (into.wanted(0)) into.add(0, combine("multiply", gradient, b, product_of_two));
                  if (into.wanted(1)) into.add(1, combine("multiply", gradient, a, product_of_two));
                });
}

Tensor divide(const Tensor& a, const Tensor& b) {
  check_same_dtype("divide", a, b);
  const Array y = combine("divide", a.value(), b.value(), quotient_of_two);
  return record("divide", y, {a, b},
                [y, b = b.value()](const Array& gradient, InputGradients& into) {
                  const Array da = combine("divide", gradient, b, quotient_of_two);
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
