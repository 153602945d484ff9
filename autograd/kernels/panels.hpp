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

// Packs a panel of `count` ≤ width rows that are contiguous along the depth. Missing rows become 0.
template <class T, int width>
void pack_across(Operand<T> from, std::int64_t count, std::int64_t depth, T* to) {
  constexpr std::int64_t lanes = simd_width<T>, groups = (width + lanes - 1) / lanes;
  std::int64_t p = 0;
  for (; p + lanes <= depth; p += lanes) {
    Lanes<T> squares[groups][lanes];
    for (std::int64_t group = 0; group < groups; ++group) {
      for (std::int64_t i = 0; i < lanes; ++i) {
        const std::int64_t row = group * lanes + i;
        if (row < count) prefetch(from.from(row, p + 8 * lanes).data);
        if (row < count)
          std::memcpy(&squares[group][i], from.from(row, p).data, sizeof(Lanes<T>));
        else
          squares[group][i] = Lanes<T>{};
      }
      transpose<T>(squares[group]);
    }
    // The next store overwrites the end of this one if the width is no multiple of a register.
    for (std::int64_t i = 0; i < lanes; ++i)
      for (std::int64_t group = 0; group < groups; ++group)
        std::memcpy(to + (p + i) * width + group * lanes, &squares[group][i], sizeof(Lanes<T>));
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
void pack_panels(Operand<T> from, std::int64_t count, std::int64_t depth, T* to) {
  for (std::int64_t row = 0; row < count; row += width)
    pack_panel<T, width>(from.from(row), std::min<std::int64_t>(width, count - row), count - row,
                         depth, to + row * depth);
}

}  // namespace tapestry
