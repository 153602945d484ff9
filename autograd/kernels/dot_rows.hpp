#pragma once

#include <array>
#include <cstring>

#include "autograd/check.hpp"
#include "autograd/kernels/register_tile.hpp"
#include "autograd/kernels/simd.hpp"
#include "autograd/q8_0.hpp"

// Dot products of rows that are read without copies.
namespace tapestry {

// Returns element i of a row of numbers, or of the blocks of q8_0, for which i is a multiple of 32.
template <class T>
const T* element(const T* row, std::int64_t i) {
  return row + i;
}
inline const Q8Block* element(const Q8Block* row, std::int64_t i) {
  return row + i / Q8Block::size;
}

// Returns the register of elements [i, i + simd_width<T>).
template <class T>
Simd<T> load_register(const T* row, std::int64_t i) {
  return Simd<T>::load_unaligned(row + i);
}
inline Simd<float> load_register(const Q8Block* row, std::int64_t i) {
  const Q8Block& block = row[i / Q8Block::size];
  return Simd<float>(block.scale) * load_int8(block.numbers + i % Q8Block::size);
}

// Returns the first `count` elements from i on.
template <class T>
Simd<T> load_rest(const T* row, std::int64_t i, std::int64_t count) {
  return load_partial(row + i, count);
}
inline Simd<float> load_rest(const Q8Block*, std::int64_t, std::int64_t) {
  throw_unhandled("a row of q8_0 that ends within a block");
}

template <class T>
void prefetch(const T* row, std::int64_t i) {
  __builtin_prefetch(row + i);
}
inline void prefetch(const Q8Block* row, std::int64_t i) {
  if (i % Q8Block::size == 0) __builtin_prefetch(row + i / Q8Block::size);
}

template <class T, int rows, int columns>
using DotLanes = std::array<std::array<Simd<T>, columns>, rows>;

// Returns the lanes of the dot product, of n terms, of each row x with each row y. Prefetches
// `asked` rows that follow y in memory, from row first_asked on. Long sums are the sums of their
// halves. Y is T, or Q8Block for rows of q8_0.
template <class T, int rows, int columns, int asked = columns, class Y = T>
DotLanes<T, rows, columns> dot_lanes(std::int64_t n, const T* x, std::int64_t x_stride, const Y* y,
                                     std::int64_t y_stride, std::int64_t first_asked = columns) {
  constexpr std::int64_t width = simd_width<T>;
  DotLanes<T, rows, columns> sums;
  if (n > run_of_span<T>) {
    const std::int64_t half = first_half<T>(n);
    sums = dot_lanes<T, rows, columns, asked>(half, x, x_stride, y, y_stride, first_asked);
    const auto rest = dot_lanes<T, rows, columns, asked>(n - half, x + half, x_stride,
                                                         element(y, half), y_stride, first_asked);
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
      const Simd<T> w = load(element(y, c * y_stride));
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        running[r * columns + c] = xsimd::fma(v[r], w, running[r * columns + c]);
    }
  };
  const Y* ahead = element(y, first_asked * y_stride);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
#pragma GCC unroll 16
    for (int c = 0; c < asked; ++c) prefetch(element(ahead, c * y_stride), i);
    add([i](const auto* from) { return load_register(from, i); });
  }
  if (i < n) add([i, n](const auto* from) { return load_rest(from, i, n - i); });
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
