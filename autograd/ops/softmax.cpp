#include "autograd/ops/softmax.hpp"

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Returns y = op(x) along the last axis. forward(n, x, y) computes a row of y (n), and backward(n,
// y, dy, dx) a row of dx. Both are generic over float and double; threads divide the rows.
template <class Forward, class Backward>
Tensor map_rows(const char* op, const Tensor& x, Forward forward, Backward backward) {
  check_floating(op, x);
  require(x.rank() >= 1, "{}: x () is a scalar; expected at least one axis", op);
  const std::int64_t n = x.dim(-1), rows = n == 0 ? 0 : x.size() / n;
  Array y(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_row(rows, n, [=](std::int64_t row) { forward(n, in + row * n, out + row * n); });
  });
  return record(op, y, {x}, [y, rows, n, backward](const Array& gradient, InputGradients& into) {
    Array dx(y.shape(), y.dtype());
    dispatch(y.dtype(), [&]<class T>() {
      const T *out = y.values<T>().data(), *dy = gradient.values<T>().data();
      T* to = dx.mutable_values<T>().data();
      for_each_row(rows, n, [=, n = n, backward = backward](std::int64_t row) {
        backward(n, out + row * n, dy + row * n, to + row * n);
      });
    });
    into.add(0, dx);
  });
}

// Returns +inf for a shift of -inf, the maximum of a row of -inf: its exponentials become 0, not
// NaN.
template <class T>
T safe_shift(T shift) {
  return shift == -std::numeric_limits<T>::infinity() ? -shift : shift;
}

}  // namespace

Tensor softmax(const Tensor& x) {
  const auto forward = []<class T>(std::int64_t n, const T* in, T* p) {
    exp_shifted(n, safe_shift(max_span(n, in)), in, p);
    const T total = sum_span(n, p), factor = total == 0 ? T(0) : T(1) / total;
    map_span(n, {p}, p, [factor](auto v) { return v * factor; });
  };
  // dx = y (dy - Σ dy y)
  const auto backward = []<class T>(std::int64_t n, const T* p, const T* dy, T* dx) {
    const T mean = dot_span(n, p, dy);
    map_span(n, {p, dy}, dx, [mean](auto v, auto g) { return v * (g - mean); });
  };
  return map_rows("softmax", x, forward, backward);
}

Tensor log_softmax(const Tensor& x) {
  const auto forward = []<class T>(std::int64_t n, const T* in, T* out) {
    const LogSum<T> sum = log_sum_exp(n, in);
    map_span(n, {in}, out, [high = sum.high, rest = sum.rest](auto v) { return v - high - rest; });
  };
  // dx = dy - e^y Σ dy
  const auto backward = []<class T>(std::int64_t n, const T* log_p, const T* dy, T* dx) {
    const T total = sum_span(n, dy);
    map_span(n, {log_p, dy}, dx, [total](auto v, auto g) { return g - exp(v) * total; });
  };
  return map_rows("log_softmax", x, forward, backward);
}

}  // namespace tapestry
