#pragma once

#include <array>
#include <cstring>

#include "autograd/kernels/register_tile.hpp"
#include "autograd/kernels/simd.hpp"

// Dot products of rows that are read without copies.
namespace tapestry {

template <class T, int rows, int columns>
using DotLanes = std::array<std::array<Simd<T>, columns>, rows>;

// Returns the lanes of the dot product, of n terms, of each row x with each row y. Prefetches
// `asked` rows that follow y in memory, from row first_asked on. Long sums are the sums of their
// halves.
template <class T, int rows, int columns, int asked = columns>
DotLanes<T, rows, columns> dot_lanes(std::int64_t n, const T* x, std::int64_t x_stride, const T* y,
                                     std::int64_t y_stride, std::int64_t first_asked = columns) {
  constexpr std::int64_t width = simd_width<T>;
  DotLanes<T, rows, columns> sums;
  if (n > run_of_span<T>) {
    const std::int64_t half = first_half<T>(n);
    sums = dot_lanes<T, rows, columns, asked>(half, x, x_stride, y, y_stride, first_asked);
    const auto rest = dot_lanes<T, rows, columns, asked>(n - half, x + half, x_stride, y + half,
                                                         y_stride, first_asked);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) sums[r][c] += rest[r][c];
    return sums;
  }
  Simd<T> running[rows * columns];  // kept in registers
#pragma GCC unroll 16
  for (Simd<T>& sum : running) sum = Simd<T>(T(0));
  const auto add = [&](const auto& load) {
    Simd<T> v[rows];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) v[r] = load(x + r * x_stride);
#pragma GCC unroll 16
    for (int c = 0; c < columns; ++c) {
      const Simd<T> w = load(y + c * y_stride);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        running[r * columns + c] = xsimd::fma(v[r], w, running[r * columns + c]);
    }
  };
  const T* ahead = y + first_asked * y_stride;
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
#pragma GCC unroll 16
    for (int c = 0; c < asked; ++c) __builtin_prefetch(ahead + c * y_stride + i);
    add([i](const T* from) { return Simd<T>::load_unaligned(from + i); });
  }
  if (i < n) add([i, n](const T* from) { return load_partial(from + i, n - i); });
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < columns; ++c) sums[r][c] = running[r * columns + c];
  return sums;
}

// Returns the dot products of x with as many rows y as a register has lanes.
template <class T>
Simd<T> dot_rows(std::int64_t n, const T* x, const T* y, std::int64_t y_stride) {
  constexpr int width = simd_width<T>;
  const auto sums = dot_lanes<T, 1, width>(n, x, 0, y, y_stride);
  Lanes<T> square[width];
  std::memcpy(square, &sums[0], sizeof(sums[0]));
  return sum_each<T>(square);
}

}  // namespace tapestry
