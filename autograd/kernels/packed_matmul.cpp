#include "autograd/kernels/packed_matmul.hpp"

#include <fmt/core.h>

#include "autograd/kernels/panels.hpp"

namespace tapestry {
namespace {

// A tile of C with a column of A and a row of B fits the processor's registers.
#if defined(__aarch64__)
constexpr int tile_rows = 8, tile_vectors = 3;
#else
constexpr int tile_rows = vector_registers == 32 ? 14 : 6, tile_vectors = 2;
#endif

template <class T>
constexpr int tile_columns = tile_vectors* simd_width<T>;

// The terms of a panel: one of B (24 KB at AVX-512) stays in the first cache while those of A pass.
constexpr std::int64_t depth_block = 192;
// What of B is packed at a time, for all threads: 4 MB.
constexpr std::int64_t most_columns = 1024, most_terms = 5 * depth_block;

// A half-open range.
struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// The piece `index` of a range that is cut into pieces of `length`.
Range piece_of(Range range, std::int64_t length, std::int64_t index) {
  const std::int64_t begin = range.begin + index * length;
  return {begin, std::min(range.end, begin + length)};
}

std::int64_t pieces_of(std::int64_t size, std::int64_t length) {
  return (size + length - 1) / length;
}

std::int64_t round_up(std::int64_t n, std::int64_t to) { return pieces_of(n, to) * to; }

// A tile of C, of `rows` rows, = start + a panel of A · a panel of B.
template <class T, int rows, int vectors>
void multiply_panel_tile(std::int64_t depth, const T* a, const T* b, Start<T> start, T* c,
                         std::int64_t c_row) {
  multiply_registers<T, rows, vectors>(depth, {a, 1, tile_rows}, b, tile_columns<T>, start, c,
                                       c_row);
}

template <class T>
using TileKernel = void (*)(std::int64_t depth, const T* a, const T* b, Start<T> start, T* c,
                            std::int64_t c_row);

// kernels[vectors - 1][rows - 1]
template <class T>
constexpr auto make_kernels() {
  std::array<std::array<TileKernel<T>, tile_rows>, tile_vectors> kernels{};
  [&]<int... v>(std::integer_sequence<int, v...>) {
    const auto fill = [&]<int vectors, int... r>(std::integral_constant<int, vectors>,
                                                 std::integer_sequence<int, r...>) {
      ((kernels[vectors - 1][r] = multiply_panel_tile<T, r + 1, vectors>), ...);
    };
    (fill(std::integral_constant<int, v + 1>(), std::make_integer_sequence<int, tile_rows>()), ...);
  }
  (std::make_integer_sequence<int, tile_vectors>());
  return kernels;
}

template <class T>
constexpr auto kernels = make_kernels<T>();

// One product, its operands seen as A (m, k) and B (k, n) however they are stored.
template <class T>
class PackedProduct {
 public:
  PackedProduct(const Matmul& matmul, const MatmulOperands& operands)
      : matmul_(matmul),
        a_{reinterpret_cast<const T*>(operands.a), matmul.transpose_a ? 1 : matmul.k,
           matmul.transpose_a ? matmul.m : 1},
        b_{reinterpret_cast<const T*>(operands.b), matmul.transpose_b ? matmul.k : 1,
           matmul.transpose_b ? 1 : matmul.n},
        c_(reinterpret_cast<T*>(operands.c)),
        bias_(reinterpret_cast<const T*>(operands.bias)) {}

  void run() const {
    const Range all_columns{0, matmul_.n}, all_terms{0, matmul_.k};
    const std::int64_t columns = std::min(most_columns, round_up(matmul_.n, tile_columns<T>));
    Array packed({columns * std::min(most_terms, matmul_.k)}, dtype_of<T>);
    T* b = packed.template mutable_values<T>().data();
    for (std::int64_t j = 0; j < pieces_of(matmul_.n, most_columns); ++j)
      for (std::int64_t p = 0; p < pieces_of(matmul_.k, most_terms); ++p) {
        const Range part = piece_of(all_columns, most_columns, j);
        const Range terms = piece_of(all_terms, most_terms, p);
        pack_b(part, terms, b);
        multiply_by(part, terms, b);
      }
  }

 private:
  // Where the panels of the columns from `column` on, and of the terms of a block, begin.
  static std::int64_t place_in_b(Range columns, Range terms, std::int64_t column, Range block) {
    return (block.begin - terms.begin) * round_up(columns.size(), tile_columns<T>) +
           (column - columns.begin) * block.size();
  }

  void pack_b(Range columns, Range terms, T* to) const {
    constexpr std::int64_t strip = 4 * tile_columns<T>, elements_a_piece = 16384;
    const std::int64_t strips = pieces_of(columns.size(), strip);
    const std::int64_t work = std::min(columns.size(), strip) * std::min(terms.size(), depth_block);
    parallel_for(strips * pieces_of(terms.size(), depth_block),
                 std::max<std::int64_t>(1, elements_a_piece / work),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const Range part = piece_of(columns, strip, i % strips);
                     const Range block = piece_of(terms, depth_block, i / strips);
                     pack_panels<T, tile_columns<T>>(
                         b_.from(part.begin, block.begin), part.size(), block.size(),
                         to + place_in_b(columns, terms, part.begin, block));
                   }
                 });
  }

  // C is cut into rectangles, by its shape alone: there are 64 of them where that leaves each worth
  // waking a thread for, so many rows that B's panels, and so many columns that A's are used again.
  struct Cut {
    std::int64_t rows = 8 * tile_rows, columns = most_columns, down, across, grain;

    Cut(std::int64_t m, std::int64_t n, std::int64_t terms) {
      constexpr std::int64_t enough = 64, narrow = 8 * tile_columns<T>;
      constexpr double worth_a_thread = 2e6;
      const auto flops = [&] { return 2.0 * std::min(rows, m) * std::min(columns, n) * terms; };
      const auto count = [&] {
        down = pieces_of(m, rows), across = pieces_of(n, columns);
        return down * across;
      };
      while (count() < enough && flops() >= 2 * worth_a_thread) {
        if (columns > narrow)
          columns /= 2;
        else if (rows > 2 * tile_rows)
          rows /= 2;
        else
          break;
      }
      grain = std::max(1.0, worth_a_thread / std::max(1.0, flops()));
    }
  };

  void multiply_by(Range columns, Range terms, const T* b) const {
    const Cut cut(matmul_.m, columns.size(), terms.size());
    parallel_for(cut.down * cut.across, cut.grain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t panels = round_up(std::min(cut.rows, matmul_.m), tile_rows);
      Array packed({panels * std::min(depth_block, terms.size()) + slack_of_panels<T, tile_rows>},
                   dtype_of<T>);
      T* a = packed.template mutable_values<T>().data();
      for (std::int64_t i = begin; i < end; ++i) {
        const Range rows = piece_of({0, matmul_.m}, cut.rows, i / cut.across);
        const Range part = piece_of(columns, cut.columns, i % cut.across);
        for (std::int64_t k = 0; k < pieces_of(terms.size(), depth_block); ++k) {
          const Range block = piece_of(terms, depth_block, k);
          pack_panels<T, tile_rows>(a_.from(rows.begin, block.begin), rows.size(), block.size(), a);
          multiply_panels(rows, part, block, a, b + place_in_b(columns, terms, part.begin, block));
        }
      }
    });
  }

  // What the products of a block of terms are added to, of the tile at (i, j).
  Start<T> start_of(Range block, std::int64_t i, std::int64_t j) const {
    if (block.begin > 0 || matmul_.accumulate) return {c_ + i * matmul_.n + j, matmul_.n};
    return bias_ ? Start<T>{bias_ + j, 0} : Start<T>{};
  }

  void multiply_panels(Range rows, Range columns, Range block, const T* a, const T* b) const {
    const std::int64_t depth = block.size();
    for (std::int64_t j = columns.begin; j < columns.end; j += tile_columns<T>) {
      const std::int64_t width = std::min<std::int64_t>(tile_columns<T>, columns.end - j);
      const T* panel = b + (j - columns.begin) * depth;
      for (std::int64_t i = rows.begin; i < rows.end; i += tile_rows)
        multiply_into(c_ + i * matmul_.n + j, std::min<std::int64_t>(tile_rows, rows.end - i),
                      width, depth, a + (i - rows.begin) * depth, panel, start_of(block, i, j));
    }
  }

  // A tile that ends within a register is computed beside C.
  void multiply_into(T* c, std::int64_t height, std::int64_t width, std::int64_t depth, const T* a,
                     const T* b, Start<T> start) const {
    const std::int64_t vectors = pieces_of(width, simd_width<T>);
    const TileKernel<T> kernel = kernels<T>[vectors - 1][height - 1];
    if (width == vectors * simd_width<T>) return kernel(depth, a, b, start, c, matmul_.n);
    alignas(64) T tile[tile_rows * tile_columns<T>] = {};
    if (start.data)
      for (std::int64_t i = 0; i < height; ++i)
        std::copy_n(start.data + i * start.row, width, tile + i * tile_columns<T>);
    kernel(depth, a, b, {tile, tile_columns<T>}, tile, tile_columns<T>);
    for (std::int64_t i = 0; i < height; ++i)
      std::copy_n(tile + i * tile_columns<T>, width, c + i * matmul_.n);
  }

  const Matmul& matmul_;
  Operand<T> a_, b_;  // the rows of B are C's columns
  T* c_;
  const T* bias_;  // or null
};

}  // namespace

void multiply_packed(const Matmul& matmul, const MatmulOperands& operands) {
  dispatch(matmul.dtype, [&]<class T>() { PackedProduct<T>(matmul, operands).run(); });
}

std::string tile_name() { return fmt::format("{}x{} tiles", tile_rows, tile_columns<float>); }

}  // namespace tapestry
