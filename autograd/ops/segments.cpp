#include "autograd/ops/segments.hpp"

#include "autograd/branches.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Some columns of one segment: n of them, of rows of F.
struct Block {
  std::int64_t begin, end;  // its rows
  std::int64_t n, F, column;
  std::int64_t own;  // where the columns begin in (S, F)

  std::int64_t at(std::int64_t row) const { return row * F + column; }
};

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
    require(is_dry_run() ||
                (values.front() == 0 && values.back() == N && std::ranges::is_sorted(values)),
            "{}: {} with offsets that do not rise from 0 to {}", op, to_string(x.shape()), N);
  }

  std::int64_t begin(std::int64_t s) const { return offsets.values<std::int32_t>()[s]; }
  std::int64_t end(std::int64_t s) const { return begin(s + 1); }

  // fn(block) for the blocks of up to 64 columns of every segment; one thread walks a block.
  template <class Fn>
  void for_each(Fn fn) const {
    constexpr std::int64_t most = 64;
    const std::int64_t blocks = (F + most - 1) / most, rows = S == 0 ? 1 : 1 + N / S;
    for_each_row(S * blocks, std::min(F, most) * rows, [&](std::int64_t i) {
      const std::int64_t s = i / blocks, column = i % blocks * most;
      fn(Block{.begin = begin(s),
               .end = end(s),
               .n = std::min(most, F - column),
               .F = F,
               .column = column,
               .own = s * F + column});
    });
  }
};

constexpr auto plus = [](auto a, auto b) { return a + b; };
constexpr auto larger = [](auto a, auto b) { return xsimd::max(a, b); };

// into (n) += the block of x (N, F).
template <class T>
void sum_rows(const Block& block, const T* x, T* into) {
  add_rows(block.begin, block.end, block.n, into, [=](std::int64_t row, T* sum) {
    map_span(block.n, {sum, x + block.at(row)}, sum, plus);
  });
}

// into (n) = the largest of the block's rows, of which there is one, of x (N, F).
template <class T>
void max_rows(const Block& block, const T* x, T* into) {
  std::copy_n(x + block.at(block.begin), block.n, into);
  for (std::int64_t row = block.begin + 1; row < block.end; ++row)
    map_span(block.n, {into, x + block.at(row)}, into, larger);
}

// (S, F): the sum of each segment's rows of x (N, F).
Array sums_of(const Segments& segments, const Array& x) {
  Array sums = Array::zeros({segments.S, segments.F}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    T* out = sums.mutable_values<T>().data();
    segments.for_each([&](const Block& block) { sum_rows(block, in, out + block.own); });
  });
  return sums;
}

// (N, F): 1 for each element of x that is its segment's maximum, else 0; best (S, F).
Array winners_of(const Segments& segments, const Array& x, const Array& best) {
  Array winners(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T *in = x.values<T>().data(), *high = best.values<T>().data();
    T* out = winners.mutable_values<T>().data();
    segments.for_each([&](const Block& block) {
      for (std::int64_t row = block.begin; row < block.end; ++row)
        map_span(
            block.n, {in + block.at(row), high + block.own}, out + block.at(row),
            [](auto v, auto b) { return select(v == b, decltype(v)(T(1)), decltype(v)(T(0))); });
    });
  });
  return winners;
}

// (S, F): the mean of each segment's winners, which the pullback gives the gradient to; empty: 0.
Array means_of_winners(const Segments& segments, const Array& x, const Array& winners) {
  const auto chosen = [](auto v, auto w) { return select(w == decltype(w)(0), w, v); };
  const auto share = [](auto total, auto n) { return select(n == decltype(n)(0), n, total / n); };
  return map_arrays(share, sums_of(segments, map_arrays(chosen, x, winners)),
                    sums_of(segments, winners));
}

Tensor scaled_sum(const char* op, const Tensor& x, const Array& offsets, bool average) {
  const Segments segments(op, x, offsets);
  const auto share = [average](std::int64_t rows) {
    return average ? 1.0 / std::max<std::int64_t>(1, rows) : 1.0;
  };
  Array y = sums_of(segments, x.value());
  dispatch(x.dtype(), [&]<class T>() {
    T* out = y.mutable_values<T>().data();
    segments.for_each([&](const Block& block) {
      const Simd<T> factor(T(share(block.end - block.begin)));
      map_span(block.n, {out + block.own}, out + block.own,
               [factor](auto v) { return v * factor; });
    });
  });
  return record(op, y, {x}, [segments, share](const Array& gradient, InputGradients& into) {
    Array dx({segments.N, segments.F}, gradient.dtype());
    dispatch(gradient.dtype(), [&]<class T>() {
      const T* dy = gradient.values<T>().data();
      T* out = dx.mutable_values<T>().data();
      segments.for_each([&](const Block& block) {
        const Simd<T> factor(T(share(block.end - block.begin)));
        for (std::int64_t row = block.begin; row < block.end; ++row)
          map_span(block.n, {dy + block.own}, out + block.at(row),
                   [factor](auto g) { return g * factor; });
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
    segments.for_each([&](const Block& block) {
      if (block.begin < block.end) max_rows(block, in, out + block.own);
    });
  });
  const Tensor best = record(
      "segment_max", y, {x},
      [segments, x = x.value(), y](const Array& gradient, InputGradients& into) {
        const Array winners = winners_of(segments, x, y), ties = sums_of(segments, winners);
        Array dx(x.shape(), x.dtype());
        dispatch(x.dtype(), [&]<class T>() {
          const T *wins = winners.values<T>().data(), *count = ties.values<T>().data();
          const T* dy = gradient.values<T>().data();
          T* out = dx.mutable_values<T>().data();
          segments.for_each([&](const Block& block) {
            for (std::int64_t row = block.begin; row < block.end; ++row)
              map_span(block.n, {wins + block.at(row), dy + block.own, count + block.own},
                       out + block.at(row), [](auto w, auto g, auto n) { return w * (g / n); });
          });
        });
        into.add(0, dx);
      });
  return in_held_branches(
      best, [&] { return winners_of(segments, x.value(), y); },
      [&](const Array& winners) { return means_of_winners(segments, x.value(), winners); });
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
    segments.for_each([&](const Block& block) {
      if (block.begin == block.end) return;
      T *high = highest + block.own, *total = sums + block.own;
      max_rows(block, in, high);
      for (std::int64_t row = block.begin; row < block.end; ++row)
        map_span(block.n, {in + block.at(row), high}, out + block.at(row),
                 [](auto v, auto shift) { return exp(v - shift); });
      sum_rows(block, out, total);
      for (std::int64_t row = block.begin; row < block.end; ++row)
        map_span(block.n, {out + block.at(row), total}, out + block.at(row),
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
          segments.for_each([&](const Block& block) {
            const std::int64_t at = block.own;
            add_rows(block.begin, block.end, block.n, mean + at, [=](std::int64_t row, T* sum) {
              map_span(block.n, {sum, p + block.at(row), dy + block.at(row)}, sum,
                       [](auto m, auto v, auto g) { return fma(v, g, m); });
            });
            for (std::int64_t row = block.begin; row < block.end; ++row)
              map_span(block.n, {p + block.at(row), dy + block.at(row), mean + at},
                       out + block.at(row), [](auto v, auto g, auto m) { return v * (g - m); });
          });
        });
        into.add(0, dx);
      });
}

}  // namespace tapestry
