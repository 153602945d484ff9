#pragma once

#include <cstring>
#include <utility>

#include "autograd/kernels/simd.hpp"

// Squares: as many vector registers as each has lanes.
namespace tapestry {

template <class T>
using Lanes [[gnu::vector_size(sizeof(Simd<T>))]] = T;

// The elements of two registers by turns, from the lower or the upper half of both.
template <class T, bool upper, std::size_t... i>
Lanes<T> interleave(Lanes<T> a, Lanes<T> b, std::index_sequence<i...>) {
  constexpr int width = sizeof...(i), start = upper ? width / 2 : 0;
  return __builtin_shufflevector(a, b, (start + int(i) / 2 + (i % 2 ? width : 0))...);
}

// The transpose of a square of registers: interleaving its two halves, log2(width) times, turns the
// bits of an element's row into those of its lane.
template <class T>
void transpose(Lanes<T> (&square)[simd_width<T>]) {
  constexpr int width = simd_width<T>;
  constexpr auto lanes = std::make_index_sequence<width>();
  for (int step = 1; step < width; step *= 2) {
    Lanes<T> next[width];
    for (int i = 0; i < width / 2; ++i) {
      next[2 * i] = interleave<T, false>(square[i], square[i + width / 2], lanes);
      next[2 * i + 1] = interleave<T, true>(square[i], square[i + width / 2], lanes);
    }
    std::memcpy(square, next, sizeof(square));
  }
}

// In lane i of the result, the sum of register i's lanes.
template <class T>
Simd<T> sum_each(Lanes<T> (&square)[simd_width<T>]) {
  constexpr int width = simd_width<T>;
  constexpr auto lanes = std::make_index_sequence<width>();
  for (int half = width / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      square[i] = interleave<T, false>(square[i], square[i + half], lanes) +
                  interleave<T, true>(square[i], square[i + half], lanes);
  alignas(64) T sums[width];
  std::memcpy(sums, &square[0], sizeof(sums));
  return Simd<T>::load_aligned(sums);
}

}  // namespace tapestry
