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
// What of B is packed at a time, for all threads: about 1 MB, which the second cache holds.
constexpr std::int64_t most_columns = 1024, most_packed = 1 << 18;

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

// A tile of C, of `rows` rows, = start + A · a panel of B. A is a panel, too, or stands in rows
// along the depth.
template <class T, bool packed, int rows, int vectors>
void multiply_by_panel(std::int64_t depth, Operand<T> a, const T* b, Start<T> start, T* c,
                       std::int64_t c_row) {
  const Operand<T> known =
      packed ? Operand<T>{a.data, 1, tile_rows} : Operand<T>{a.data, a.row_stride, 1};
  multiply_registers<T, rows, vectors>(depth, known, b, tile_columns<T>, start, c, c_row);
}

template <class T>
using TileKernel = void (*)(std::int64_t depth, Operand<T> a, const T* b, Start<T> start, T* c,
                            std::int64_t c_row);

// kernels[vectors - 1][rows - 1]
template <class T>
using TileKernels = std::array<std::array<TileKernel<T>, tile_rows>, tile_vectors>;

template <class T, bool packed>
constexpr TileKernels<T> make_kernels() {
  const auto of_vectors = []<int vectors, int... r>(std::integral_constant<int, vectors>,
                                                    std::integer_sequence<int, r...>) {
    return std::array<TileKernel<T>, tile_rows>{multiply_by_panel<T, packed, r + 1, vectors>...};
  };
  return [&]<int... v>(std::integer_sequence<int, v...>) {
    return TileKernels<T>{of_vectors(std::integral_constant<int, v + 1>(),
                                     std::make_integer_sequence<int, tile_rows>())...};
  }
  (std::make_integer_sequence<int, tile_vectors>());
}

template <class T, bool packed>
constexpr TileKernels<T> kernels = make_kernels<T, packed>();

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
    const std::int64_t columns = std::min(most_columns, round_up(matmul_.n, tile_columns<T>));
    const std::int64_t blocks = std::max<std::int64_t>(1, most_packed / columns / depth_block);
    const std::int64_t terms = std::min(blocks * depth_block, matmul_.k);
    Array packed({columns * terms}, dtype_of<T>);
    T* b = packed.template mutable_values<T>().data();
    for (std::int64_t j = 0; j < pieces_of(matmul_.n, columns); ++j)
      for (std::int64_t p = 0; p < pieces_of(matmul_.k, terms); ++p) {
        const Range part = piece_of({0, matmul_.n}, columns, j);
        const Range range = piece_of({0, matmul_.k}, terms, p);
        pack_b(part, range, b);
        multiply_by(part, range, b);
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

  // C is cut into rectangles: four a thread where that leaves each worth waking one for, so many
  // columns that A's panels are used again, and no more rows than panels of them stay in the second
  // cache.
  struct Cut {
    std::int64_t rows, columns, down, across, grain;

    Cut(std::int64_t m, std::int64_t n, std::int64_t terms) {
      constexpr std::int64_t most_rows = 8 * tile_rows, narrow = 8 * tile_columns<T>;
      constexpr double worth_a_thread = 2e6;
      const double flops = 2.0 * m * n * terms;
      const std::int64_t wanted =
          num_threads() == 1 ? 1 : std::clamp(flops / worth_a_thread, 1.0, 4.0 * num_threads());
      const std::int64_t most_across = std::max<std::int64_t>(1, n / narrow);
      across = std::clamp<std::int64_t>(wanted / pieces_of(m, most_rows), 1, most_across);
      down = std::max(pieces_of(m, most_rows), pieces_of(wanted, across));
      rows = round_up(pieces_of(m, down), tile_rows);
      columns = round_up(pieces_of(n, across), tile_columns<T>);
      down = pieces_of(m, rows), across = pieces_of(n, columns);
      grain = std::max(1.0, down * across * worth_a_thread / std::max(1.0, flops));
    }
  };

  // Whether tiles read A's rows where they stand, along the depth and not all in the same lines of
  // the cache. Packing pays where many columns read a tile of AVX-512's 14 rows.
  bool reads_rows() const {
    constexpr std::int64_t page = 4096;
    const bool packing_pays = vector_registers == 32 && matmul_.n > 2 * tile_columns<T>;
    return a_.depth_stride == 1 && !packing_pays && a_.row_stride * sizeof(T) % page != 0;
  }

  void multiply_by(Range columns, Range terms, const T* b) const {
    const Cut cut(matmul_.m, columns.size(), terms.size());
    const bool in_rows = reads_rows();
    const std::int64_t panels =
        std::min(depth_block, terms.size()) * cut.rows + slack_of_panels<T, tile_rows>;
    parallel_for(cut.down * cut.across, cut.grain, [&](std::int64_t begin, std::int64_t end) {
      Array packed({in_rows ? 0 : panels}, dtype_of<T>);
      T* a = packed.template mutable_values<T>().data();
      for (std::int64_t i = begin; i < end; ++i) {
        const Range rows = piece_of({0, matmul_.m}, cut.rows, i / cut.across);
        const Range part = piece_of(columns, cut.columns, i % cut.across);
        for (std::int64_t k = 0; k < pieces_of(terms.size(), depth_block); ++k) {
          const Range block = piece_of(terms, depth_block, k);
          const T* panel = b + place_in_b(columns, terms, part.begin, block);
          const Operand<T> from = a_.from(rows.begin, block.begin);
          if (!in_rows) pack_panels<T, tile_rows>(from, rows.size(), block.size(), a);
          if (in_rows)
            multiply_panels<false>(rows, part, block, from, panel);
          else
            multiply_panels<true>(rows, part, block, {a, block.size(), 1}, panel);
        }
      }
    });
  }

  // What the products of a block of terms are added to, of the tile at (i, j).
  Start<T> start_of(Range block, std::int64_t i, std::int64_t j) const {
    if (block.begin > 0 || matmul_.accumulate) return {c_ + i * matmul_.n + j, matmul_.n};
    return bias_ ? Start<T>{bias_ + j, 0} : Start<T>{};
  }

  // `a` (rows, terms): the elements of a tile's rows are apart by its row_stride, in panels as
  // well.
  template <bool packed>
  void multiply_panels(Range rows, Range columns, Range block, Operand<T> a, const T* b) const {
    const std::int64_t depth = block.size();
    for (std::int64_t j = columns.begin; j < columns.end; j += tile_columns<T>) {
      const std::int64_t width = std::min<std::int64_t>(tile_columns<T>, columns.end - j);
      const T* panel = b + (j - columns.begin) * depth;
      for (std::int64_t i = rows.begin; i < rows.end; i += tile_rows) {
        const std::int64_t height = std::min<std::int64_t>(tile_rows, rows.end - i);
        multiply_into(kernels<T, packed>, c_ + i * matmul_.n + j, height, width, depth,
                      a.from(i - rows.begin), panel, start_of(block, i, j));
      }
    }
  }

  // A tile that ends within a register is computed beside C.
  void multiply_into(const TileKernels<T>& by_size, T* c, std::int64_t height, std::int64_t width,
                     std::int64_t depth, Operand<T> a, const T* b, Start<T> start) const {
    const std::int64_t vectors = pieces_of(width, simd_width<T>);
    const TileKernel<T> kernel = by_size[vectors - 1][height - 1];
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
