#include "autograd/ops/unfold.hpp"

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Which steps of a sequence stand in which windows.
struct Windows {
  std::int64_t B, T, C, K, stride, before;
  std::int64_t count;  // T'

  // fn(row of the windows, row of the sequence) for each step of each window of example b, but
  // not of its padding.
  template <class F>
  void for_each_step(std::int64_t b, F fn) const {
    for (std::int64_t window = 0; window < count; ++window)
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t t = window * stride + k - before;
        if (t >= 0 && t < T) fn((b * count + window) * K + k, b * T + t);
      }
  }
};

}  // namespace

Tensor unfold(const Tensor& x, const UnfoldOptions& options) {
  check_floating("unfold", x);
  const auto [K, stride, before, after] = options;
  require(x.rank() == 3 && K >= 1 && stride >= 1 && before >= 0 && after >= 0,
          "unfold: {} with windows of {} every {}, {} zeros before and {} after",
          to_string(x.shape()), K, stride, before, after);
  const std::int64_t B = x.dim(0), T = x.dim(1), C = x.dim(2), room = before + T + after - K;
  const Windows windows{.B = B,
                        .T = T,
                        .C = C,
                        .K = K,
                        .stride = stride,
                        .before = before,
                        .count = room < 0 ? 0 : room / stride + 1};
  Array y = Array::zeros({B, windows.count, K * C}, x.dtype());
  dispatch(x.dtype(), [&]<class Real>() {
    const Real* in = x.value().values<Real>().data();
    Real* out = y.mutable_values<Real>().data();
    for_each_row(B, windows.count * K * C, [&](std::int64_t b) {
      windows.for_each_step(b, [&](std::int64_t to, std::int64_t from) {
        std::copy_n(in + from * C, C, out + to * C);
      });
    });
  });
  return record("unfold", y, {x}, [windows](const Array& gradient, InputGradients& into) {
    Array dx = Array::zeros({windows.B, windows.T, windows.C}, gradient.dtype());
    dispatch(gradient.dtype(), [&]<class Real>() {
      const Real* dy = gradient.values<Real>().data();
      Real* out = dx.mutable_values<Real>().data();
      for_each_row(windows.B, windows.count * windows.K * windows.C, [&](std::int64_t b) {
        windows.for_each_step(b, [&, C = windows.C](std::int64_t from, std::int64_t to) {
          map_span(C, {out + to * C, dy + from * C}, out + to * C,
                   [](auto sum, auto g) { return sum + g; });
        });
      });
    });
    into.add(0, dx);
  });
}

}  // namespace tapestry
