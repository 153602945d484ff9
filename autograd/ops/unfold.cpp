#include "autograd/ops/unfold.hpp"

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Which steps of a sequence stand in which windows.
struct Windows {
  std::int64_t B, T, C, K, stride, before;
  std::int64_t count;  // T'

  // y (B, T', K C) of x (B, T, C): threads share out the windows.
  template <class Real>
  void take(const Real* x, Real* y) const {
    for_each_row(B * count, K * C, [=, *this](std::int64_t row) {
      const std::int64_t first = row % count * stride - before;
      const Real* sequence = x + row / count * T * C;
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t t = first + k;
        Real* to = y + (row * K + k) * C;
        if (t >= 0 && t < T)
          std::copy_n(sequence + t * C, C, to);
        else
          std::fill_n(to, C, Real(0));
      }
    });
  }

  // dx (B, T, C) of dy (B, T', K C): threads share out the steps, which add up their windows in
  // order.
  template <class Real>
  void give_back(const Real* dy, Real* dx) const {
    for_each_row(B * T, C * (1 + K / stride), [=, *this](std::int64_t row) {
      const std::int64_t b = row / T, place = row % T + before;  // in the padded sequence
      Real* sum = dx + row * C;
      std::fill_n(sum, C, Real(0));
      for (std::int64_t k = K - 1; k >= 0; --k) {
        const std::int64_t start = place - k;
        if (start < 0 || start % stride != 0 || start / stride >= count) continue;
        const Real* g = dy + ((b * count + start / stride) * K + k) * C;
        map_span(C, {sum, g}, sum, [](auto x, auto y) { return x + y; });
      }
    });
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
  Array y({B, windows.count, K * C}, x.dtype());
  dispatch(x.dtype(), [&]<class Real>() {
    windows.take(x.value().values<Real>().data(), y.mutable_values<Real>().data());
  });
  return record("unfold", y, {x}, [windows](const Array& gradient, InputGradients& into) {
    Array dx({windows.B, windows.T, windows.C}, gradient.dtype());
    dispatch(gradient.dtype(), [&]<class Real>() {
      windows.give_back(gradient.values<Real>().data(), dx.mutable_values<Real>().data());
    });
    into.add(0, dx);
  });
}

}  // namespace tapestry
