#pragma once

#include "autograd/kernels/simd.hpp"

// Matrix products of tiles that stand in the first-level cache, for the attention kernels.
namespace tapestry {

// Element (row, column) stands at data[row * row_stride + column * column_stride].
template <class T>
struct TileOperand {
  const T* data;
  std::int64_t row_stride, column_stride;
};

// `rows` × (vectors · simd_width) of C += A B, held in registers while it walks the depth.
template <class T, int rows, int vectors>
void multiply_registers(std::int64_t depth, TileOperand<T> a, const T* b, std::int64_t b_row, T* c,
                        std::int64_t c_row) {
  constexpr std::int64_t width = simd_width<T>;
  Simd<T> sums[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) sums[r][v] = Simd<T>::load_aligned(c + r * c_row + v * width);
  for (std::int64_t p = 0; p < depth; ++p) {
    Simd<T> columns[vectors];
    for (int v = 0; v < vectors; ++v) columns[v] = Simd<T>::load_aligned(b + p * b_row + v * width);
    for (int r = 0; r < rows; ++r) {
      const Simd<T> x(a.data[r * a.row_stride + p * a.column_stride]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = xsimd::fma(x, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) sums[r][v].store_aligned(c + r * c_row + v * width);
}

// Rows by sixes: twelve sums, two columns and one element of A fill AVX2's sixteen registers. The
// rows left over are one group of their own, narrower.
template <class T, int vectors, int rows = 6>
void multiply_columns(std::int64_t count, std::int64_t depth, TileOperand<T> a, const T* b,
                      std::int64_t b_row, T* c, std::int64_t c_row) {
  std::int64_t r = 0;
  for (; r + rows <= count; r += rows)
    multiply_registers<T, rows, vectors>(depth,
                                         {a.data + r * a.row_stride, a.row_stride, a.column_stride},
                                         b, b_row, c + r * c_row, c_row);
  if constexpr (rows > 1)
    if (r < count)
      multiply_columns<T, vectors, rows - 1>(
          count - r, depth, {a.data + r * a.row_stride, a.row_stride, a.column_stride}, b, b_row,
          c + r * c_row, c_row);
}

// C (rows, columns) += A (rows, depth) · B (depth, columns). `columns` is a multiple of
// simd_width<T>, and rows of B and C are aligned to it.
template <class T>
void multiply_tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, TileOperand<T> a,
                   const T* b, std::int64_t b_row, T* c, std::int64_t c_row) {
  constexpr std::int64_t pair = 2 * simd_width<T>;
  std::int64_t at = 0;
  for (; at + pair <= columns; at += pair)
    multiply_columns<T, 2>(rows, depth, a, b + at, b_row, c + at, c_row);
  if (at < columns) multiply_columns<T, 1>(rows, depth, a, b + at, b_row, c + at, c_row);
}

}  // namespace tapestry
