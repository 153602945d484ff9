#pragma once

#include <algorithm>
#include <limits>

#include "autograd/kernels/xsimd.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {

// As many scalars as one vector register holds. xsimd's exp, log, tanh, log1p and expm1 of them are
// within 3 units in the last place of the true value, erf within 3 in float32 and 70 in float64.
template <class T>
using Simd = xsimd::batch<T>;

template <class T>
inline constexpr std::int64_t simd_width = static_cast<std::int64_t>(Simd<T>::size);

// The sum of a batch's lanes.
template <class T>
T sum_lanes(const Simd<T>& batch) {
#if XSIMD_VERSION_MAJOR < 10
  return xsimd::hadd(batch);
#else
  return xsimd::reduce_add(batch);
#endif
}

// The first `count` < simd_width<T> elements; the other lanes are 0.
template <class T>
Simd<T> load_partial(const T* from, std::int64_t count) {
  alignas(64) T lanes[simd_width<T>] = {};
  std::copy_n(from, count, lanes);
  return Simd<T>::load_aligned(lanes);
}

template <class T>
void store_partial(const Simd<T>& batch, T* to, std::int64_t count) {
  alignas(64) T lanes[simd_width<T>];
  batch.store_aligned(lanes);
  std::copy_n(lanes, count, to);
}

// out[i] = f(in[i]…) for i in [0, n). Every element meets the same vector arithmetic, a ragged
// tail too, so a value does not depend on where it stands. `out` may be one of `in`.
template <class T, class F, class... In>
void map_span(std::int64_t n, F f, T* out, const In*... in) {
  std::int64_t i = 0;
  for (; i + simd_width<T> <= n; i += simd_width<T>)
    f(Simd<T>::load_unaligned(in + i)...).store_unaligned(out + i);
  if (i < n) store_partial<T>(f(load_partial(in + i, n - i)...), out + i, n - i);
}

// The same over all threads, for arrays.
template <class T, class F, class... In>
void map(std::int64_t n, F f, T* out, const In*... in) {
  constexpr std::int64_t grain = 16384;
  parallel_for(n, grain, [=](std::int64_t begin, std::int64_t end) {
    map_span<T>(end - begin, f, out + begin, (in + begin)...);
  });
}

// fold(… fold(fold(start, in[0]), in[1]) …) by lanes; returns the lanes for the caller to join.
// The tail's missing lanes are filled with `padding`, which must not change the fold.
template <class T, class Fold, class... In>
Simd<T> fold_span(std::int64_t n, Simd<T> start, T padding, Fold fold, const In*... in) {
  Simd<T> lanes = start;
  std::int64_t i = 0;
  for (; i + simd_width<T> <= n; i += simd_width<T>)
    lanes = fold(lanes, Simd<T>::load_unaligned(in + i)...);
  if (i == n) return lanes;
  const auto load_padded = [&](const T* from) {
    alignas(64) T values[simd_width<T>];
    std::fill_n(values, simd_width<T>, padding);
    std::copy_n(from, n - i, values);
    return Simd<T>::load_aligned(values);
  };
  return fold(lanes, load_padded(in + i)...);
}

template <class T>
T sum_span(std::int64_t n, const T* in) {
  return sum_lanes(fold_span<T>(
      n, Simd<T>(T(0)), T(0), [](auto sum, auto x) { return sum + x; }, in));
}

template <class T>
T max_span(std::int64_t n, const T* in) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const Simd<T> best = fold_span<T>(
      n, Simd<T>(lowest), lowest, [](auto so_far, auto x) { return xsimd::max(so_far, x); }, in);
  alignas(64) T lanes[simd_width<T>];
  best.store_aligned(lanes);
  return *std::max_element(lanes, lanes + simd_width<T>);
}

}  // namespace tapestry
