#pragma once

#include "autograd/check.hpp"
#include "autograd/kernels/simd.hpp"
#include "autograd/tape.hpp"

// Helpers that run element-wise ops on vector registers and all threads. For the sources of ops.
namespace tapestry {

inline void check_not_empty(const char* op, const Tensor& x) {
  require(!x.value().empty(), "{}: an input is an empty Tensor(); expected an array", op);
}

inline void check_floating(const char* op, const Tensor& x) {
  check_not_empty(op, x);
  require(x.dtype() == DType::float32 || x.dtype() == DType::float64,
          "{}: an input is {}; expected float32 or float64", op, x.value());
}

inline void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check_floating(op, a);
  check_not_empty(op, b);
  require(a.dtype() == b.dtype(), "{}: {} with {}: the dtypes differ; expected equal ones", op,
          a.value(), b.value());
}

inline void check_same_shape(const char* op, const Tensor& a, const Tensor& b) {
  check_same_dtype(op, a, b);
  require(a.shape() == b.shape(), "{}: shapes {} and {} differ; expected equal shapes", op,
          a.shape(), b.shape());
}

template <class X>
using Scalar = typename X::value_type;

// Returns 1 / (1 + e^-x), with an exponential that never overflows.
template <class X>
X logistic(const X& x) {
  using T = Scalar<X>;
  const X small = exp(-abs(x));
  return select(x >= X(T(0)), X(T(1)), small) / (T(1) + small);
}

// Returns a new array with f of the elements of all inputs, which have one shape and dtype.
template <class F, class... In>
Array map_arrays(F f, const Array& first, const In&... rest) {
  Array out(first.shape(), first.dtype());
  dispatch(first.dtype(), [&]<class T>() {
    map(out.size(), {first.values<T>().data(), rest.template values<T>().data()...},
        out.mutable_values<T>().data(), f);
  });
  return out;
}

// Returns memory for a result of x's shape and dtype: x itself if there is no other handle.
inline Array reuse(const Array& x) { return x.unique() ? x : Array(x.shape(), x.dtype()); }

// Returns map_arrays(f, gradient, saved…), in place of the gradient if possible.
template <class F, class... Saved>
Array map_gradient(F f, const Array& gradient, const Saved&... saved) {
  Array out = reuse(gradient);
  dispatch(out.dtype(), [&]<class T>() {
    map(out.size(), {gradient.values<T>().data(), saved.template values<T>().data()...},
        out.mutable_values<T>().data(), f);
  });
  return out;
}

enum class Saves { input, output };  // the array that a unary op saves for its pullback

// Returns y = forward(x), with dx = pullback(dy, x or y). Both are generic over vector registers.
// Throws std::invalid_argument for int32.
template <Saves saves, class Forward, class UnaryPullback>
Tensor unary(const char* op, const Tensor& x, Forward forward, UnaryPullback pullback) {
  check_floating(op, x);
  const Array y = map_arrays(forward, x.value());
  return record(op, y, {x},
                [saved = saves == Saves::input ? x.value() : y, pullback](const Array& gradient,
                                                                          InputGradients& into) {
                  into.add(0, map_gradient(pullback, gradient, saved));
                });
}

// Returns y = forward(a, b) for equal shapes, with da = pullback_a(dy, a, b), and db likewise.
// Throws std::invalid_argument for shapes or dtypes that differ, and for int32.
template <class Forward, class PullbackA, class PullbackB>
Tensor binary(const char* op, const Tensor& a, const Tensor& b, Forward forward,
              PullbackA pullback_a, PullbackB pullback_b) {
  check_same_shape(op, a, b);
  return record(op, map_arrays(forward, a.value(), b.value()), {a, b},
                [a = a.value(), b = b.value(), pullback_a, pullback_b](const Array& gradient,
                                                                       InputGradients& into) {
                  if (into.wanted(0)) into.add(0, map_arrays(pullback_a, gradient, a, b));
                  if (into.wanted(1)) into.add(1, map_arrays(pullback_b, gradient, a, b));
                });
}

}  // namespace tapestry
