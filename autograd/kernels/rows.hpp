#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "autograd/kernels/simd.hpp"

// Kernels on one contiguous row of n elements, and the loop that gives rows to threads.
namespace tapestry {

// fn(row) for each of `rows` rows of `width` elements.
template <class F>
void for_each_row(std::int64_t rows, std::int64_t width, F fn) {
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, width));
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) fn(row);
  });
}

// Calls add(row, sum) for the rows [begin, end), each of which it adds to sum (n). More rows than a
// run are the sum of their halves.
template <class T, class Add>
void add_rows(std::int64_t begin, std::int64_t end, std::int64_t n, T* sum, const Add& add) {
  if (end - begin <= longest_run) {
    for (std::int64_t row = begin; row < end; ++row) add(row, sum);
    return;
  }
  const std::int64_t middle = begin + (end - begin) / 2;
  std::vector<T> rest(n);
  add_rows(begin, middle, n, sum, add);
  add_rows(middle, end, n, rest.data(), add);
  map_span(n, {sum, rest.data()}, sum, [](auto x, auto y) { return x + y; });
}

// 1 / sum, by which a row is multiplied. 0 for the sum 0 of a row that has nothing; NaN for one
// that overflowed, which would turn the row into zeros.
template <class T>
T inverse_of_sum(T sum) {
  if (sum == 0) return T(0);
  return std::isinf(sum) ? std::numeric_limits<T>::quiet_NaN() : T(1) / sum;
}

// log Σ e^x = high + rest, where high is the largest x. For x - log Σ e^x, subtract one after the
// other: of large numbers, their sum has lost the digits of the rest.
template <class T>
struct LogSum {
  T high, rest;
};

// {-inf, 0} where the row is empty or all its elements are -inf.
template <class T>
LogSum<T> log_sum_exp(std::int64_t n, const T* x) {
  const T high = max_span(n, x);
  if (!std::isfinite(high)) return {high, T(0)};
  const auto add_exp = [high](auto sum, auto v) { return sum + exp(v - high); };
  constexpr T none = -std::numeric_limits<T>::infinity();
  return {high, std::log(sum_lanes(sum_terms(n, {x}, none, add_exp)))};
}

// y = e^(x - shift).
template <class T>
void exp_shifted(std::int64_t n, T shift, const T* x, T* y) {
  map_span(n, {x}, y, [shift](auto v) { return exp(v - shift); });
}

template <class T>
T dot_span(std::int64_t n, const T* x, const T* y) {
  const auto add_product = [](auto sum, auto a, auto b) { return fma(a, b, sum); };
  return sum_lanes(sum_terms(n, {x, y}, T(0), add_product));
}

// sums[i] += the lanes of x · yᵢ, in the order of dot_span.
template <class T>
void add_four_dots(std::int64_t n, const T* x, const T* y, std::int64_t stride,
                   std::array<Simd<T>, 4>& sums) {
  if (n > run_of_span<T>) {
    const std::int64_t half = first_half<T>(n);
    const Simd<T> zero(T(0));
    std::array<Simd<T>, 4> rest{zero, zero, zero, zero};
    add_four_dots(half, x, y, stride, sums);
    add_four_dots(n - half, x + half, y + half, stride, rest);
    for (int row = 0; row < 4; ++row) sums[row] += rest[row];
    return;
  }
  std::int64_t i = 0;
  for (; i + simd_width<T> <= n; i += simd_width<T>) {
    const Simd<T> v = Simd<T>::load_unaligned(x + i);
    for (int row = 0; row < 4; ++row)
      sums[row] = fma(v, Simd<T>::load_unaligned(y + row * stride + i), sums[row]);
  }
  if (i < n) {
    const Simd<T> v = load_partial(x + i, n - i);
    for (int row = 0; row < 4; ++row)
      sums[row] = fma(v, load_partial(y + row * stride + i, n - i), sums[row]);
  }
}

// x · yᵢ for four rows y, `stride` elements apart: four sums at once hide the additions' latency.
template <class T>
std::array<T, 4> dot_four_spans(std::int64_t n, const T* x, const T* y, std::int64_t stride) {
  const Simd<T> zero(T(0));
  std::array<Simd<T>, 4> sums{zero, zero, zero, zero};
  add_four_dots(n, x, y, stride, sums);
  return {sum_lanes(sums[0]), sum_lanes(sums[1]), sum_lanes(sums[2]), sum_lanes(sums[3])};
}

}  // namespace tapestry
