#include "autograd/ops/segments.hpp"

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// The S segments of the rows of x (N, F).
struct Segments {
  Array offsets;
  std::int64_t S = 0, N = 0, F = 0;

  Segments(const char* op, const Tensor& x, const Array& given) : offsets(given) {
    check_floating(op, x);
    require(x.rank() == 2 && given.dtype() == DType::int32 && given.rank() == 1 && given.size() > 0,
            "{}: {} with {} offsets {}", op, to_string(x.shape()), to_string(given.dtype()),
            to_string(given.shape()));
    S = given.size() - 1, N = x.dim(0), F = x.dim(1);
    const auto values = given.values<std::int32_t>();
    require(values.front() == 0 && values.back() == N && std::ranges::is_sorted(values),
            "{}: {} with offsets that do not rise from 0 to {}", op, to_string(x.shape()), N);
  }

  std::int64_t begin(std::int64_t s) const { return offsets.values<std::int32_t>()[s]; }
  std::int64_t end(std::int64_t s) const { return begin(s + 1); }

  // fn(s, begin, end) for every segment; one thread walks a segment.
  template <class Fn>
  void for_each(Fn fn) const {
    for_each_row(S, S == 0 ? 1 : F * (1 + N / S), [&](std::int64_t s) { fn(s, begin(s), end(s)); });
  }
};

// into (F) = fold(into, row) over the rows [begin, end) of x (N, F).
template <class T, class Fold>
void fold_rows(std::int64_t begin, std::int64_t end, std::int64_t F, const T* x, T* into,
               Fold fold) {
  for (std::int64_t row = begin; row < end; ++row) map_span(F, {into, x + row * F}, into, fold);
}

constexpr auto plus = [](auto a, auto b) { return a + b; };
constexpr auto larger = [](auto a, auto b) { return xsimd::max(a, b); };

Tensor scaled_sum(const char* op, const Tensor& x, const Array& offsets, bool average) {
  const Segments segments(op, x, offsets);
  const auto share = [average](std::int64_t rows) {
    return average ? 1.0 / std::max<std::int64_t>(1, rows) : 1.0;
  };
  Array y = Array::zeros({segments.S, segments.F}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    segments.for_each([&, F = segments.F](std::int64_t s, std::int64_t begin, std::int64_t end) {
      fold_rows(begin, end, F, in, out + s * F, plus);
      const Simd<T> factor(T(share(end - begin)));
      map_span(F, {out + s * F}, out + s * F, [factor](auto v) { return v * factor; });
    });
  });
  return record(op, y, {x}, [segments, share](const Array& gradient, InputGradients& into) {
    Array dx({segments.N, segments.F}, gradient.dtype());
    dispatch(gradient.dtype(), [&]<class T>() {
      const T* dy = gradient.values<T>().data();
      T* out = dx.mutable_values<T>().data();
      segments.for_each([&, F = segments.F](std::int64_t s, std::int64_t begin, std::int64_t end) {
        const Simd<T> factor(T(share(end - begin)));
        for (std::int64_t row = begin; row < end; ++row)
          map_span(F, {dy + s * F}, out + row * F, [factor](auto g) { return g * factor; });
      });
    });
    into.add(0, dx);
  });
}

}  // namespace

Tensor segment_sum(const Tensor& x, const Array& offsets) {
  return scaled_sum("segment_sum", x, offsets, false);
}

Tensor segment_mean(const Tensor& x, const Array& offsets) {
  return scaled_sum("segment_mean", x, offsets, true);
}

Tensor segment_max(const Tensor& x, const Array& offsets) {
  const Segments segments("segment_max", x, offsets);
  Array y = Array::zeros({segments.S, segments.F}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    segments.for_each([&, F = segments.F](std::int64_t s, std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      std::copy_n(in + begin * F, F, out + s * F);
      fold_rows(begin + 1, end, F, in, out + s * F, larger);
    });
  });
  return record(
      "segment_max", y, {x},
      [segments, x = x.value(), y](const Array& gradient, InputGradients& into) {
        Array dx(x.shape(), x.dtype());
        Array ties = Array::zeros(y.shape(), y.dtype());
        dispatch(x.dtype(), [&]<class T>() {
          const T *in = x.values<T>().data(), *dy = gradient.values<T>().data();
          const T* best = y.values<T>().data();
          T *out = dx.mutable_values<T>().data(), *count = ties.mutable_values<T>().data();
          const auto wins = [](auto v, auto b) {
            return select(v == b, decltype(v)(T(1)), decltype(v)(T(0)));
          };
          segments.for_each(
              [&, F = segments.F](std::int64_t s, std::int64_t begin, std::int64_t end) {
                const std::int64_t at = s * F;
                for (std::int64_t row = begin; row < end; ++row)
                  map_span(F, {count + at, in + row * F, best + at}, count + at,
                           [=](auto n, auto v, auto b) { return n + wins(v, b); });
                for (std::int64_t row = begin; row < end; ++row)
                  map_span(F, {in + row * F, best + at, dy + at, count + at}, out + row * F,
                           [=](auto v, auto b, auto g, auto n) { return wins(v, b) * (g / n); });
              });
        });
        into.add(0, dx);
      });
}

Tensor segment_softmax(const Tensor& x, const Array& offsets) {
  const Segments segments("segment_softmax", x, offsets);
  Array y(x.shape(), x.dtype());
  Array highs({segments.S, segments.F}, x.dtype());
  Array totals = Array::zeros(highs.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.value().values<T>().data();
    T *out = y.mutable_values<T>().data(), *highest = highs.mutable_values<T>().data();
    T* sums = totals.mutable_values<T>().data();
    segments.for_each([&, F = segments.F](std::int64_t s, std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      T *high = highest + s * F, *total = sums + s * F;
      std::copy_n(in + begin * F, F, high);
      fold_rows(begin + 1, end, F, in, high, larger);
      for (std::int64_t row = begin; row < end; ++row)
        map_span(F, {in + row * F, high}, out + row * F,
                 [](auto v, auto shift) { return exp(v - shift); });
      fold_rows(begin, end, F, out, total, plus);
      for (std::int64_t row = begin; row < end; ++row)
        map_span(F, {out + row * F, total}, out + row * F,
                 [](auto v, auto sum) { return v / sum; });
    });
  });
  // dx = y (dy - Σ dy y)
  return record(
      "segment_softmax", y, {x}, [segments, y](const Array& gradient, InputGradients& into) {
        Array dx(y.shape(), y.dtype());
        Array means = Array::zeros({segments.S, segments.F}, y.dtype());
        dispatch(y.dtype(), [&]<class T>() {
          const T *p = y.values<T>().data(), *dy = gradient.values<T>().data();
          T *out = dx.mutable_values<T>().data(), *mean = means.mutable_values<T>().data();
          segments.for_each(
              [&, F = segments.F](std::int64_t s, std::int64_t begin, std::int64_t end) {
                const std::int64_t at = s * F;
                for (std::int64_t row = begin; row < end; ++row)
                  map_span(F, {mean + at, p + row * F, dy + row * F}, mean + at,
                           [](auto m, auto v, auto g) { return fma(v, g, m); });
                for (std::int64_t row = begin; row < end; ++row)
                  map_span(F, {p + row * F, dy + row * F, mean + at}, out + row * F,
                           [](auto v, auto g, auto m) { return v * (g - m); });
              });
        });
        into.add(0, dx);
      });
}

}  // namespace tapestry
