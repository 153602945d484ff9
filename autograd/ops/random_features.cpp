#include "autograd/ops/random_features.hpp"

#include <cmath>

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// sine[i], cosine[i] = factor · sin x[i], factor · cos x[i].
template <class T>
void sines_and_cosines(std::int64_t n, T factor, const T* x, T* sine, T* cosine) {
  std::int64_t i = 0;
  for (; i + simd_width<T> <= n; i += simd_width<T>) {
    const auto [s, c] = sincos(Simd<T>::load_unaligned(x + i));
    (factor * s).store_unaligned(sine + i);
    (factor * c).store_unaligned(cosine + i);
  }
  if (i == n) return;
  const auto [s, c] = sincos(load_partial(x + i, n - i));
  store_partial<T>(factor * s, sine + i, n - i);
  store_partial<T>(factor * c, cosine + i, n - i);
}

// y = x · factor where the factor, which is returned, is 1 / |x|, or 0 for a row of zeros.
template <class T>
T write_unit_row(std::int64_t n, const T* x, T* y) {
  const T squares = dot_span(n, x, x);
  if (std::isnormal(squares)) {
    const T factor = T(1) / std::sqrt(squares);
    map_span(n, {x}, y, [factor](auto v) { return v * factor; });
    return factor;
  }
  // They overflow or vanish. Those of x by its largest element do neither.
  map_span(n, {x}, y, [](auto v) { return abs(v); });
  const T high = max_span(n, y);
  if (squares == 0 && high <= 0) return T(0);  // y is 0 already
  map_span(n, {x}, y, [high](auto v) { return v / high; });
  const T factor = T(1) / std::sqrt(dot_span(n, y, y));
  map_span(n, {y}, y, [factor](auto v) { return v * factor; });
  return factor / high;
}

}  // namespace

Tensor sine_features(const Tensor& x) {
  check_floating("sine_features", x);
  require(x.rank() >= 2, "sine_features: x {}", to_string(x.shape()));
  const std::int64_t D = x.dim(-2), T = x.dim(-1), rows = T == 0 ? 0 : x.size() / T;
  Shape shape = x.shape();
  shape[-2] = 2 * D;
  Array y(shape, x.dtype());
  dispatch(x.dtype(), [&]<class Real>() {
    const Real factor = 1 / std::sqrt(D);
    const Real* in = x.value().values<Real>().data();
    Real* out = y.mutable_values<Real>().data();
    for_each_row(rows, T, [=](std::int64_t row) {
      Real* sine = out + (row / D * D + row) * T;
      sines_and_cosines(T, factor, in + row * T, sine, sine + D * T);
    });
  });
  return record("sine_features", y, {x},
                [y, D, T, rows, from = x.shape()](const Array& gradient, InputGradients& into) {
                  Array dx(from, y.dtype());
                  dispatch(y.dtype(), [&]<class Real>() {
                    const Real* out = y.values<Real>().data();
                    const Real* dy = gradient.values<Real>().data();
                    Real* to = dx.mutable_values<Real>().data();
                    for_each_row(rows, T, [=, D = D, T = T](std::int64_t row) {
                      const std::int64_t sine = (row / D * D + row) * T, cosine = sine + D * T;
                      map_span(T, {dy + sine, dy + cosine, out + sine, out + cosine}, to + row * T,
                               [](auto ds, auto dc, auto s, auto c) { return ds * c - dc * s; });
                    });
                  });
                  into.add(0, dx);
                });
}

Tensor unit_rows(const Tensor& x) {
  check_floating("unit_rows", x);
  require(x.rank() >= 1, "unit_rows: a scalar has no axis");
  const std::int64_t n = x.dim(-1), rows = n == 0 ? 0 : x.size() / n;
  Array y(x.shape(), x.dtype()), factors({rows}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    T* factor = factors.mutable_values<T>().data();
    for_each_row(rows, n, [=](std::int64_t row) {
      factor[row] = write_unit_row(n, in + row * n, out + row * n);
    });
  });
  // dx = (dy - y Σ dy y) / |x|
  return record("unit_rows", y, {x},
                [y, factors, n, rows](const Array& gradient, InputGradients& into) {
                  Array dx = reuse(gradient);
                  dispatch(y.dtype(), [&]<class T>() {
                    const T* unit = y.values<T>().data();
                    const T* factor = factors.values<T>().data();
                    const T* dy = gradient.values<T>().data();
                    T* to = dx.mutable_values<T>().data();
                    for_each_row(rows, n, [=, n = n](std::int64_t row) {
                      const std::int64_t at = row * n;
                      const T along = dot_span(n, unit + at, dy + at), f = factor[row];
                      map_span(n, {unit + at, dy + at}, to + at,
                               [along, f](auto u, auto g) { return (g - u * along) * f; });
                    });
                  });
                  into.add(0, dx);
                });
}

}  // namespace tapestry
