#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "autograd/kernels/simd.hpp"

// Kernels on one contiguous row of n elements, and the loop that divides rows among threads.
namespace tapestry {

// Calls fn(row) for each of `rows` rows of `width` elements, on all threads.
template <class F>
void for_each_row(std::int64_t rows, std::int64_t width, F fn) {
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, width));
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) fn(row);
  });
}

// Calls add(row, sum) for the rows [begin, end), which adds each to sum (n). More rows than
// longest_run are added by halves.
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

// Returns 1 / sum, but 0 for a sum of 0, and NaN for a sum that overflowed, because 1 / ∞ makes a
// row of zeros.
template <class T>
T inverse_of_sum(T sum) {
  if (sum == 0) return T(0);
  return std::isinf(sum) ? std::numeric_limits<T>::quiet_NaN() : T(1) / sum;
}

// The logarithm of a sum of exponentials, log Σ e^x = high + rest, where high is the largest x.
// Subtract them from x one after the other: their sum rounds the rest if high is large.
template <class T>
struct LogSum {
  T high, rest;
};

// Returns log Σ e^x of a row: {-inf, 0} if it is empty or all elements are -inf.
template <class T>
LogSum<T> log_sum_exp(std::int64_t n, const T* x) {
  const T high = max_span(n, x);
  if (!std::isfinite(high)) return {high, T(0)};
  const auto add_exp = [high](auto sum, auto v) { return sum + exp(v - high); };
  constexpr T none = -std::numeric_limits<T>::infinity();
  return {high, std::log(sum_lanes(sum_terms(n, {x}, none, add_exp)))};
}

// Computes y = e^(x - shift).
template <class T>
void exp_shifted(std::int64_t n, T shift, const T* x, T* y) {
  map_span(n, {x}, y, [shift](auto v) { return exp(v - shift); });
}

// Returns Σ x y.
template <class T>
T dot_span(std::int64_t n, const T* x, const T* y) {
  const auto add_product = [](auto sum, auto a, auto b) { return fma(a, b, sum); };
  return sum_lanes(sum_terms(n, {x, y}, T(0), add_product));
}

}  // namespace tapestry
