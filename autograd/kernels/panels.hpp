#pragma once

#include "autograd/kernels/register_tile.hpp"
#include "autograd/kernels/simd.hpp"

// Packing of the operands of large products into panels: blocks of `width` rows in which the
// elements of one depth are contiguous, in the order in which a tile reads them.
namespace tapestry {

// Prefetches an address, which may be beyond the end of the operand: most operands are not in a
// near cache.
inline void prefetch(const void* address) { __builtin_prefetch(address); }

// Maximum number of elements that are written beyond the end of a panel, because whole registers
// are stored.
template <class T, int width>
inline constexpr std::int64_t slack_of_panels =
    (width + simd_width<T> - 1) / simd_width<T>* simd_width<T> - width;

// Copies a square of a register's lanes from rows that are contiguous along the depth, transposed.
// Of the rows, `count` exist; the others become 0.
template <class T, int width>
[[gnu::always_inline]] inline void pack_square(const T* from, std::int64_t row_stride,
                                               std::int64_t count, T* to) {
  constexpr std::int64_t lanes = simd_width<T>;
  Lanes<T> square[lanes];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes; ++i, from += row_stride) {
    if (i < count) prefetch(from + 8 * lanes);
    if (i < count)
      std::memcpy(&square[i], from, sizeof(Lanes<T>));
    else
      square[i] = Lanes<T>{};
  }
  transpose<T>(square);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes; ++i)
    std::memcpy(to + i * width, &square[i], sizeof(Lanes<T>));
}

// Packs a panel of `count` ≤ width rows that are contiguous along the depth. Missing rows become 0.
template <class T, int width>
void pack_across(Operand<T> from, std::int64_t count, std::int64_t depth, T* to) {
  constexpr std::int64_t lanes = simd_width<T>, groups = (width + lanes - 1) / lanes;
  std::int64_t p = 0;
  for (; p + lanes <= depth; p += lanes)
    // The last group comes first, because its stores overwrite the first elements of the next rows
    // if the width is no multiple of a register.
    for (std::int64_t group = groups - 1; group >= 0; --group) {
      const std::int64_t first = group * lanes;
      const T* row = from.from(first, p).data;
      T* square = to + p * width + first;
      if (count - first >= lanes)
        pack_square<T, width>(row, from.row_stride, lanes, square);
      else if (count == width)
        pack_square<T, width>(row, from.row_stride, width % lanes, square);
      else
        pack_square<T, width>(row, from.row_stride, count - first, square);
    }
  for (; p < depth; ++p)
    for (std::int64_t row = 0; row < width; ++row)
      to[p * width + row] = row < count ? *from.from(row, p).data : T(0);
}

// Packs a panel of `count` ≤ width rows whose elements of one depth are contiguous. If enough
// elements follow, copies whole registers, each over the end of the last one.
template <class T, int width>
void pack_along(Operand<T> from, std::int64_t count, std::int64_t following, std::int64_t depth,
                T* to) {
  constexpr std::int64_t whole = width + slack_of_panels<T, width>;
  if (following >= whole) {
    for (std::int64_t p = 0; p < depth; ++p) {
      prefetch(from.from(0, p + 16).data);
      prefetch(from.from(whole - 1, p + 16).data);
      Lanes<T> part[whole / simd_width<T>];
      std::memcpy(part, from.from(0, p).data, sizeof(part));
      std::memcpy(to + p * width, part, sizeof(part));
    }
    return;
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    std::copy_n(from.from(0, p).data, count, to + p * width);
    std::fill(to + p * width + count, to + (p + 1) * width, T(0));
  }
}

// Packs a panel of `count` ≤ width rows. `following` ≥ count rows follow from the first on.
template <class T, int width>
void pack_panel(Operand<T> from, std::int64_t count, std::int64_t following, std::int64_t depth,
                T* to) {
  if (from.depth_stride == 1)
    pack_across<T, width>(from, count, depth, to);
  else
    pack_along<T, width>(from, count, following, depth, to);
}

// Packs `count` rows into panels of `width` rows, each of width · depth elements.
template <class T, int width>
void pack_panels(Operand<T> from, std::int64_t count, std::int64_t following, std::int64_t depth,
                 T* to) {
  for (std::int64_t row = 0; row < count; row += width)
    pack_panel<T, width>(from.from(row), std::min<std::int64_t>(width, count - row),
                         following - row, depth, to + row * depth);
}

}  // namespace tapestry
