#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "autograd/buffer_pool.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/register_tile.hpp"
#include "autograd/parallel.hpp"

// The loops around the tiles of a large product: which thread computes what, and what is packed.
namespace tapestry {

// A half-open range.
struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

inline std::int64_t pieces_of(std::int64_t size, std::int64_t length) {
  return (size + length - 1) / length;
}

// Returns the piece `index` of a range that is divided into pieces of `length`.
inline Range piece_of(Range range, std::int64_t length, std::int64_t index) {
  const std::int64_t begin = range.begin + index * length;
  return {begin, std::min(range.end, begin + length)};
}

// Returns a thread's memory for panels, which is reused, because new memory is not in the cache.
inline std::byte* memory_for_panels(std::int64_t bytes) {
  thread_local std::shared_ptr<std::byte[]> memory;
  thread_local std::int64_t room = 0;
  if (room < bytes) {
    memory = allocate_workspace(bytes);
    room = bytes;
  }
  return memory.get();
}

// Copies n < 64 elements in pieces of constant sizes, which take less than a call of memcpy().
template <class T>
void copy_few(std::int64_t n, const T* from, T* to) {
  const auto copy = [&]<int count>(std::integral_constant<int, count>) {
    if (!(n & count)) return;
    std::memcpy(to, from, count * sizeof(T));
    from += count, to += count;
  };
  copy(std::integral_constant<int, 32>());
  copy(std::integral_constant<int, 16>());
  copy(std::integral_constant<int, 8>());
  copy(std::integral_constant<int, 4>());
  copy(std::integral_constant<int, 2>());
  copy(std::integral_constant<int, 1>());
}

// One product of A (m, k) and B (k, n), whatever their storage. Tiles says what its tiles are:
//
//   Number, Packed            the types of A, B and C, and of packed operands
//   Registers                 an object that prepares a thread's registers for tiles
//   rows, columns             the size of a tile of C, and the width of panels of A and of B
//   row_step, column_step     what heights and widths of tiles that cost no more than their share
//                             are multiples of; threads divide C by them
//   depth_block               the number of terms of a panel; C is read and written once for each
//   depth_step                packing fills panels with zeros to a multiple of this depth
//   slack                     the number of elements that packing may write beyond a panel
//   most_rows                 the most rows or columns of the operand that is kept at a time
//   most_packed               the most elements of it, if they are more than one block of terms
//   panels_together           the number of panels of the other operand that are packed at a time
//   packing                   the time to pack an element, in multiply-adds
//   worth_a_thread            the number of operations that is worth waking a thread
//   packs_a, packs_b          whether tiles read panels, or the operand itself
//   pack_a, pack_b            (from, count, following, depth, to): packs `count` rows into panels;
//                             `following` ≥ count rows exist from the first on
//   fits                      (height, width): whether a tile of C of this size may be computed in
//                             place; other tiles are computed in a buffer
//   multiply                  (height, width, depth, a, b, start, c, c_row): C = start + A · B
template <class Tiles>
class PackedProduct {
 public:
  using T = typename Tiles::Number;
  using Packed = typename Tiles::Packed;

  PackedProduct(const Matmul& matmul, const MatmulOperands& operands)
      : matmul_(matmul),
        a_{reinterpret_cast<const T*>(operands.a), matmul.transpose_a ? 1 : matmul.k,
           matmul.transpose_a ? matmul.m : 1},
        b_{reinterpret_cast<const T*>(operands.b), matmul.transpose_b ? matmul.k : 1,
           matmul.transpose_b ? 1 : matmul.n},
        c_(reinterpret_cast<T*>(operands.c)),
        bias_(reinterpret_cast<const T*>(operands.bias)) {}

  // Computes rectangles of C independently, so that no thread waits for another one to pack.
  void run() const {
    const Cut cut(matmul_);
    parallel_for(cut.down * cut.across, 1, [&](std::int64_t begin, std::int64_t end) {
      [[maybe_unused]] const typename Tiles::Registers registers;
      for (std::int64_t i = begin; i < end; ++i)
        multiply(piece_of({0, matmul_.m}, cut.rows, i / cut.across),
                 piece_of({0, matmul_.n}, cut.columns, i % cut.across));
    });
  }

 private:
  // The division of C into at most two rectangles for each thread, each large enough to wake one,
  // such that the last thread ends first. Each rectangle packs its own rows of A and columns of B.
  struct Cut {
    std::int64_t rows, columns, down, across;
    // What it takes to begin and end a tile, as a number of terms of its sums.
    static constexpr std::int64_t terms_of_start = 8;

    explicit Cut(const Matmul& matmul) : rows(matmul.m), columns(matmul.n) {
      const double filled = round_up(matmul.n, Tiles::column_step);
      const double flops = 2.0 * matmul.m * filled * (matmul.k + terms_of_start);
      const std::int64_t threads = num_threads();
      const std::int64_t most =
          threads == 1 ? 1 : std::clamp(flops / Tiles::worth_a_thread, 1.0, 2.0 * threads);
      double least = std::numeric_limits<double>::infinity();
      for (const std::int64_t pieces : {std::min(threads, most), most})
        for (std::int64_t y = 1; y <= pieces; ++y) {
          const std::int64_t x = pieces / y;
          const std::int64_t height = round_up(pieces_of(matmul.m, y), Tiles::row_step);
          const std::int64_t width = round_up(pieces_of(matmul.n, x), Tiles::column_step);
          const double time = pieces_of(x * y, threads) *
                              (double(height * width) + Tiles::packing * double(height + width));
          if (time < least) least = time, rows = height, columns = width;
        }
      down = pieces_of(matmul.m, rows), across = pieces_of(matmul.n, columns);
    }
  };

  static std::int64_t packed_depth(std::int64_t terms) {
    return round_up(terms, Tiles::depth_step);
  }

  // Whole cache lines, so that the panels that are kept begin with one.
  static constexpr std::int64_t slack =
      (Tiles::slack * sizeof(Packed) + 63) / 64 * (64 / sizeof(Packed));
  static constexpr bool packs_both = Tiles::packs_a && Tiles::packs_b;

  // Keeps the rows of A, or, where there are fewer of them, the columns of B: packs a strip of them
  // for some blocks of terms, then the other operand panel by panel and block by block. Such a
  // panel stays in the nearest caches until it was multiplied by the whole strip.
  void multiply(Range rows, Range columns) const {
    const bool keeps_a = !packs_both || rows.size() <= columns.size();
    const Range kept = keeps_a ? rows : columns;
    const std::int64_t strips = pieces_of(kept.size(), Tiles::most_rows);
    const std::int64_t length_of_strip = round_up(pieces_of(kept.size(), strips), step_of(keeps_a));
    const std::int64_t blocks =
        std::max<std::int64_t>(1, Tiles::most_packed / length_of_strip / Tiles::depth_block);
    const std::int64_t length = std::min(blocks * Tiles::depth_block, matmul_.k);
    const std::int64_t size_of_group =
        packed_depth(std::min(Tiles::depth_block, matmul_.k)) * group_of(!keeps_a) + slack;
    const std::int64_t size = size_of_group + length_of_strip * packed_depth(length) + slack;
    auto* group = reinterpret_cast<Packed*>(memory_for_panels(sizeof(Packed) * size));
    for (std::int64_t i = 0; i < pieces_of(kept.size(), length_of_strip); ++i)
      for (std::int64_t p = 0; p < pieces_of(matmul_.k, length); ++p) {
        const Range strip = piece_of(kept, length_of_strip, i),
                    terms = piece_of({0, matmul_.k}, length, p);
        multiply_strip(keeps_a, strip, keeps_a ? columns : rows, terms, group + size_of_group,
                       group);
      }
  }

  static std::int64_t step_of(bool is_a) { return is_a ? Tiles::rows : Tiles::columns; }

  // Returns the number of rows of A, or columns of B, that are packed at a time. If the operand is
  // not contiguous along the depth, one panel would read only a few bytes in a row.
  std::int64_t group_of(bool is_a) const {
    return ((is_a ? a_ : b_).depth_stride == 1 ? 1 : Tiles::panels_together) * step_of(is_a);
  }

  // Computes C for the strip that is kept. `kept` and `group` are memory for packed panels.
  void multiply_strip(bool keeps_a, Range strip, Range others, Range terms, Packed* kept,
                      Packed* group) const {
    const std::int64_t blocks = pieces_of(terms.size(), Tiles::depth_block);
    const auto block_of = [&](std::int64_t p) { return piece_of(terms, Tiles::depth_block, p); };
    const auto kept_panels = [&](Range block) {
      return kept + (block.begin - terms.begin) * round_up(strip.size(), step_of(keeps_a));
    };
    for (std::int64_t p = 0; p < blocks; ++p)
      pack(keeps_a, strip, block_of(p), kept_panels(block_of(p)));
    const std::int64_t length = group_of(!keeps_a);
    for (std::int64_t i = 0; i < pieces_of(others.size(), length); ++i)
      for (std::int64_t p = 0; p < blocks; ++p) {
        const Range range = piece_of(others, length, i), block = block_of(p);
        pack(!keeps_a, range, block, group);
        multiply_group(keeps_a, strip, range, block, kept_panels(block), group);
      }
  }

  // Packs rows of A, or columns of B, unless tiles read the operand itself.
  void pack(bool is_a, Range range, Range terms, Packed* to) const {
    if (is_a && Tiles::packs_a)
      Tiles::pack_a(a_.from(range.begin, terms.begin), range.size(), matmul_.m - range.begin,
                    terms.size(), to);
    if (!is_a && Tiles::packs_b)
      Tiles::pack_b(b_.from(range.begin, terms.begin), range.size(), matmul_.n - range.begin,
                    terms.size(), to);
  }

  // Multiplies each panel of a group by all of the strip that is kept.
  void multiply_group(bool keeps_a, Range strip, Range group, Range terms, const Packed* kept,
                      const Packed* panels) const {
    const std::int64_t depth = packed_depth(terms.size());
    const std::int64_t step = step_of(keeps_a), step_of_group = step_of(!keeps_a);
    for (std::int64_t j = 0; j < pieces_of(group.size(), step_of_group); ++j)
      for (std::int64_t i = 0; i < pieces_of(strip.size(), step); ++i) {
        const Range of_strip = piece_of(strip, step, i),
                    of_group = piece_of(group, step_of_group, j);
        const Packed *kept_panel = kept + i * step * depth,
                     *panel = panels + j * step_of_group * depth;
        if (keeps_a)
          multiply_tile(of_strip, of_group, terms, kept_panel, panel);
        else
          multiply_tile(of_group, of_strip, terms, panel, kept_panel);
      }
  }

  // Returns the values that the products of a block of terms are added to, for the tile at (i, j).
  Start<T> start_of(Range terms, std::int64_t i, std::int64_t j) const {
    if (terms.begin > 0 || matmul_.accumulate) return {c_ + i * matmul_.n + j, matmul_.n};
    return bias_ ? Start<T>{bias_ + j, 0} : Start<T>{};
  }

  // Computes a tile of C, in a buffer if the tile is larger than what is left of C.
  void multiply_tile(Range rows, Range columns, Range terms, const Packed* panel_of_a,
                     const Packed* panel_of_b) const {
    Operand<Packed> a{panel_of_a, 1, Tiles::rows}, b{panel_of_b, 1, Tiles::columns};
    if constexpr (!Tiles::packs_a) a = a_.from(rows.begin, terms.begin);
    if constexpr (!Tiles::packs_b) b = b_.from(columns.begin, terms.begin);
    const Start<T> start = start_of(terms, rows.begin, columns.begin);
    const std::int64_t height = rows.size(), width = columns.size(), depth = terms.size();
    T* c = c_ + rows.begin * matmul_.n + columns.begin;
    if (Tiles::fits(height, width))
      return Tiles::multiply(height, width, depth, a, b, start, c, matmul_.n);
    alignas(64) T tile[Tiles::rows * Tiles::columns];
    if (start.data)
      for (std::int64_t i = 0; i < height; ++i)
        copy_few(width, start.data + i * start.row, tile + i * Tiles::columns);
    Tiles::multiply(height, width, depth, a, b,
                    start.data ? Start<T>{tile, Tiles::columns} : Start<T>{}, tile, Tiles::columns);
    for (std::int64_t i = 0; i < height; ++i)
      copy_few(width, tile + i * Tiles::columns, c + i * matmul_.n);
  }

  const Matmul& matmul_;
  Operand<T> a_, b_;  // rows of b_ are the columns of C
  T* c_;
  const T* bias_;  // may be null
};

}  // namespace tapestry
