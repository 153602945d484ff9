#include "autograd/ops/softmax.hpp"

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

struct RowShape {
  std::int64_t rows, n;
  RowShape(const char* op, const Tensor& x) {
    check_floating(op, x);
    require(x.rank() >= 1, "{}: a scalar has no axis", op);
    n = x.dim(-1);
    rows = n == 0 ? 0 : x.size() / n;
  }
};

// A row of -inf alone would be shifted by -inf; +inf in its place turns its exponentials into
// zeros.
template <class T>
T safe_shift(T shift) {
  return shift == -std::numeric_limits<T>::infinity() ? -shift : shift;
}

}  // namespace

Tensor softmax(const Tensor& x) {
  const auto [rows, n] = RowShape("softmax", x);
  Array y(x.shape(), x.dtype());
  dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_row(rows, n, [=](std::int64_t row) {
      T* p = out + row * n;
      exp_shifted(n, safe_shift(max_span(n, in + row * n)), in + row * n, p);
      const T total = sum_span(n, p), factor = total == 0 ? T(0) : T(1) / total;
      map_span(n, {p}, p, [factor](auto v) { return v * factor; });
    });
  });
  // dx = y (dy - Σ dy y)
  return record("softmax", y, {x},
                [y, rows = rows, n = n](const Array& gradient, InputGradients& into) {
                  Array dx(y.shape(), y.dtype());
                  dispatch(y.dtype(), [&]<class T>() {
                    const T* p = y.values<T>().data();
                    const T* dy = gradient.values<T>().data();
                    T* out = dx.mutable_values<T>().data();
                    for_each_row(rows, n, [=](std::int64_t row) {
                      const std::int64_t at = row * n;
                      const T mean = dot_span(n, p + at, dy + at);
                      map_span(n, {p + at, dy + at}, out + at,
                               [mean](auto v, auto g) { return v * (g - mean); });
                    });
                  });
                  into.add(0, dx);
                });
}

Tensor log_softmax(const Tensor& x) {
  const auto [rows, n] = RowShape("log_softmax", x);
  Array y(x.shape(), x.dtype());
  dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_row(rows, n, [=](std::int64_t row) {
      const auto [high, rest] = log_sum_exp(n, in + row * n);
      map_span(n, {in + row * n}, out + row * n,
               [high = high, rest = rest](auto v) { return v - high - rest; });
    });
  });
  // dx = dy - e^y Σ dy
  return record("log_softmax", y, {x},
                [y, rows = rows, n = n](const Array& gradient, InputGradients& into) {
                  Array dx(y.shape(), y.dtype());
                  dispatch(y.dtype(), [&]<class T>() {
                    const T* log_p = y.values<T>().data();
                    const T* dy = gradient.values<T>().data();
                    T* out = dx.mutable_values<T>().data();
                    for_each_row(rows, n, [=](std::int64_t row) {
                      const std::int64_t at = row * n;
                      const T total = sum_span(n, dy + at);
                      map_span(n, {log_p + at, dy + at}, out + at,
                               [total](auto v, auto g) { return g - exp(v) * total; });
                    });
                  });
                  into.add(0, dx);
                });
}

Tensor logsumexp(const Tensor& x) {
  const auto [rows, n] = RowShape("logsumexp", x);
  const Shape shape(x.shape().begin(), x.shape().end() - 1);
  Array y = Array::full(shape, -std::numeric_limits<double>::infinity(), x.dtype());
  dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_row(rows, n, [=](std::int64_t row) {
      const auto [high, rest] = log_sum_exp(n, in + row * n);
      out[row] = high + rest;
    });
  });
  // dx = dy e^(x - y)
  return record(
      "logsumexp", y, {x},
      [x = x.value(), y, rows = rows, n = n](const Array& gradient, InputGradients& into) {
        Array dx(x.shape(), x.dtype());
        dispatch(x.dtype(), [&]<class T>() {
          const T* in = x.values<T>().data();
          const T* log_sum = y.values<T>().data();
          const T* dy = gradient.values<T>().data();
          T* out = dx.mutable_values<T>().data();
          for_each_row(rows, n, [=](std::int64_t row) {
            const T shift = safe_shift(log_sum[row]), g = dy[row];
            map_span(n, {in + row * n}, out + row * n, [=](auto v) { return g * exp(v - shift); });
          });
        });
        into.add(0, dx);
      });
}

}  // namespace tapestry
