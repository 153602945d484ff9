#pragma once

#include "autograd/kernels/register_tile.hpp"
#include "autograd/kernels/squares.hpp"

// Operands of large products are copied into panels: blocks of `width` rows in which the rows'
// elements of one depth stand side by side, in the order in which a tile reads them.
namespace tapestry {

// Asks for what is read soon, and may lie behind the operand's end: within a step most operands are
// in no near cache.
inline void prefetch(const void* address) { __builtin_prefetch(address); }

// The elements that a panel of so many rows and such a depth takes; as whole registers are stored,
// a few behind its end are written as well.
template <class T, int width>
inline constexpr std::int64_t slack_of_panels =
    (width + simd_width<T> - 1) / simd_width<T>* simd_width<T> - width;

// One panel of `count` ≤ width rows, which stand along the depth. Missing rows become zeros.
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
    // Where the width is no multiple of a register, a store's end is overwritten by the next one's.
    for (std::int64_t i = 0; i < lanes; ++i)
      for (std::int64_t group = 0; group < groups; ++group)
        std::memcpy(to + (p + i) * width + group * lanes, &squares[group][i], sizeof(Lanes<T>));
  }
  for (; p < depth; ++p)
    for (std::int64_t row = 0; row < width; ++row)
      to[p * width + row] = row < count ? *from.from(row, p).data : T(0);
}

// One panel of `count` ≤ width rows whose elements of one depth stand side by side already. Where
// as many elements follow as whole registers take, registers are copied, each over the last one's
// end.
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

// One panel of `count` ≤ width rows; after the first of them, `following` ≥ count stand in memory.
template <class T, int width>
void pack_panel(Operand<T> from, std::int64_t count, std::int64_t following, std::int64_t depth,
                T* to) {
  if (from.depth_stride == 1)
    pack_across<T, width>(from, count, depth, to);
  else
    pack_along<T, width>(from, count, following, depth, to);
}

// Copies `count` rows into panels of `width`, each of width · depth elements.
template <class T, int width>
void pack_panels(Operand<T> from, std::int64_t count, std::int64_t depth, T* to) {
  for (std::int64_t row = 0; row < count; row += width)
    pack_panel<T, width>(from.from(row), std::min<std::int64_t>(width, count - row), count - row,
                         depth, to + row * depth);
}

}  // namespace tapestry
