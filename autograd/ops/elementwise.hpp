#pragma once

#include "autograd/check.hpp"
#include "autograd/kernels/simd.hpp"
#include "autograd/tape.hpp"

// The helpers that run element-wise ops, vectorised and threaded. For .cpp files.
namespace tapestry {

inline void check_floating(const char* op, const Tensor& x) {
  require(x.dtype() != DType::int32, "{}: expected float32 or float64, got {} {}", op,
          to_string(x.dtype()), to_string(x.shape()));
}

inline void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check_floating(op, a);
  require(a.dtype() == b.dtype(), "{}: {} {} with {} {}", op, to_string(a.dtype()),
          to_string(a.shape()), to_string(b.dtype()), to_string(b.shape()));
}

inline void check_same_shape(const char* op, const Tensor& a, const Tensor& b) {
  check_same_dtype(op, a, b);
  require(a.shape() == b.shape(), "{}: shapes {} and {} differ", op, to_string(a.shape()),
          to_string(b.shape()));
}

template <class X>
using Scalar = typename X::value_type;

// 1 / (1 + e^-x), with an exponential that never overflows.
template <class X>
X logistic(const X& x) {
  using T = Scalar<X>;
  const X small = exp(-abs(x));
  return select(x >= X(T(0)), X(T(1)), small) / (T(1) + small);
}

// A new array whose elements are f of the elements of `in`, all of one shape and dtype.
template <class F, class... In>
Array map_arrays(F f, const Array& first, const In&... rest) {
  Array out(first.shape(), first.dtype());
  dispatch(first.dtype(), [&]<class T>() {
    map(out.size(), {first.values<T>().data(), rest.template values<T>().data()...},
        out.mutable_values<T>().data(), f);
  });
  return out;
}

// Where a pullback may leave a result of x's shape: over x itself if nobody else holds it.
inline Array reuse(const Array& x) { return x.unique() ? x : Array(x.shape(), x.dtype()); }

// The same as map_arrays(f, gradient, saved…), over the gradient where that is possible.
template <class F, class... Saved>
Array map_gradient(F f, const Array& gradient, const Saved&... saved) {
  Array out = reuse(gradient);
  dispatch(out.dtype(), [&]<class T>() {
    map(out.size(), {gradient.values<T>().data(), saved.template values<T>().data()...},
        out.mutable_values<T>().data(), f);
  });
  return out;
}

enum class Saves { input, output };  // what a unary op's pullback needs

// y = forward(x); dx = pullback(dy, x or y). Both are generic over vector registers.
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

// y = forward(a, b) for one shape, without broadcasting; da = pullback_a(dy, a, b), db alike.
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
