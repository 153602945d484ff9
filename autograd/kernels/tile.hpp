#pragma once

#include "autograd/kernels/heads.hpp"
#include "autograd/kernels/simd.hpp"

// Tiles of heads and their matrix products, for the attention kernels.
namespace tapestry {

inline constexpr std::int64_t tile = 64;  // the queries of a tile, and the keys

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

inline std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

template <class T>
std::int64_t padded(std::int64_t n) {
  return round_up(n, simd_width<T>);
}

// The rows of one head, `time` elements apart.
template <class T>
struct Rows {
  T* data;
  std::int64_t time;
  T* operator[](std::int64_t t) const { return data + t * time; }
  Rows from(std::int64_t t) const { return {data + t * time, time}; }
};

template <class T>
Rows<T> rows_of(const HeadsView& view, std::int64_t b, std::int64_t h) {
  return {reinterpret_cast<T*>(view.data) + b * view.batch + h * view.head, view.time};
}

// One thread's tiles, carved from one block of memory.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t elements) : memory_({elements}, dtype_of<T>) {}
  T* take(std::int64_t rows, std::int64_t columns) {
    T* start = memory_.mutable_values<T>().data() + used_;
    used_ += rows * columns;
    return start;
  }
  T* take_zeros(std::int64_t rows, std::int64_t columns) {
    T* start = take(rows, columns);
    std::fill_n(start, rows * columns, T(0));
    return start;
  }

 private:
  Array memory_;
  std::int64_t used_ = 0;
};

// to (count, width) = factor · from (count, D), padded with zeros. A head's rows stand far apart:
// read tile by tile where they are, they would miss the caches and their prefetchers.
template <class T>
void pack(Rows<T> from, std::int64_t count, std::int64_t D, T factor, T* to, std::int64_t width) {
  for (std::int64_t r = 0; r < count; ++r) {
    map_span(D, {from[r]}, to + r * width, [factor](auto x) { return x * factor; });
    std::fill(to + r * width + D, to + (r + 1) * width, T(0));
  }
}

// to (D, tile) = factor · fromᵀ; missing rows become columns of zeros. Eight rows at a time, so
// that neighbouring elements are written together.
template <class T>
void load_transposed(Rows<T> from, std::int64_t first, std::int64_t count, std::int64_t D, T factor,
                     T* to) {
  constexpr std::int64_t block = 8;
  for (std::int64_t r = 0; r < count; r += block)
    for (std::int64_t d = 0; d < D; ++d)
      for (std::int64_t i = r; i < std::min(count, r + block); ++i)
        to[d * tile + i] = factor * from[first + i][d];
  for (std::int64_t d = 0; d < D; ++d) std::fill(to + d * tile + count, to + (d + 1) * tile, T(0));
}

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

// Takes the rows in groups of six: with two vectors a row, the twelve sums, two vectors of B and
// one element of A fit AVX2's sixteen registers. The rows left over are one smaller group.
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
