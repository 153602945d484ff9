#pragma once

#include "autograd/kernels/simd.hpp"

// The innermost loop of all matrix products: a tile of C that stays in registers.
namespace tapestry {

// The number of vector registers, which determines the size of tiles.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif

inline std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// An operand of a product: element (row, p) is data[row * row_stride + p * depth_stride], where p
// is the index of a term of the sum.
template <class T>
struct Operand {
  const T* data;
  std::int64_t row_stride, depth_stride;
  Operand from(std::int64_t row, std::int64_t p = 0) const {
    return {data + row * row_stride + p * depth_stride, row_stride, depth_stride};
  }
};

// The values that a product is added to: none, or `data` (rows, columns) with a distance of `row`
// elements between rows; 0 if all rows are the same.
template <class T>
struct Start {
  const T* data = nullptr;
  std::int64_t row = 0;
};

// What a product prefetches: C and A, which come from other caches, or nothing.
enum class Prefetch { operands, nothing };

// Computes C (rows, vectors · simd_width) = start + A (rows, depth) · B (depth, vectors ·
// simd_width). The products of an element are added in the order of the depth, each by one fma.
// With AVX-512, A is prefetched some terms ahead, because its panels come from the L2 cache. With
// AVX2 that costs more than it saves.
template <class T, int rows, int vectors, Prefetch prefetched = Prefetch::operands>
[[gnu::always_inline]] inline void multiply_registers(std::int64_t depth, Operand<T> a, const T* b,
                                                      std::int64_t b_row, Start<T> start, T* c,
                                                      std::int64_t c_row) {
  constexpr std::int64_t width = simd_width<T>, terms_ahead = 16;
  constexpr bool prefetches_c = prefetched == Prefetch::operands;
  constexpr bool prefetches_a = prefetches_c && sizeof(Simd<T>) == 64;
  Simd<T> sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    if constexpr (prefetches_c) __builtin_prefetch(c + r * c_row, 1);
    if constexpr (prefetches_c) __builtin_prefetch(c + r * c_row + vectors * width - 1, 1);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = Simd<T>(T(0));
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    if constexpr (prefetches_a) __builtin_prefetch(a.data + (p + terms_ahead) * a.depth_stride);
    Simd<T> columns[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      columns[v] = Simd<T>::load_unaligned(b + p * b_row + v * width);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const Simd<T> x(a.data[r * a.row_stride + p * a.depth_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = xsimd::fma(x, columns[v], sums[r][v]);
    }
  }
  if (start.data)
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        sums[r][v] += Simd<T>::load_unaligned(start.data + r * start.row + v * width);
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v].store_unaligned(c + r * c_row + v * width);
}

}  // namespace tapestry
