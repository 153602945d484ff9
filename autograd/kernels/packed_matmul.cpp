#include <fmt/core.h>

#include "autograd/buffer_pool.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/panels.hpp"

namespace tapestry {
namespace {

// The size of a tile of C: with a column of A and a row of B it fits into the registers.
#if defined(__aarch64__)
constexpr int tile_rows = 8, tile_vectors = 3;
#else
constexpr int tile_rows = vector_registers == 32 ? 14 : 6, tile_vectors = 2;
#endif

template <class T>
constexpr int tile_columns = tile_vectors* simd_width<T>;

// The number of terms of a panel. C is read and written once for each panel, so panels are long:
// one of B takes 48 KB with AVX-512, and tiles read it as fast from the L2 cache as from L1.
constexpr std::int64_t depth_block = 384;
// The maximum number of elements of A that are packed at a time: 768 KB of float32, which fit an L2
// cache of 1 MB.
constexpr std::int64_t most_rows = 512, most_packed = most_rows * depth_block;

// A half-open range.
struct ColumnRange {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Returns the piece `index` of a range that is divided into pieces of `length`.
ColumnRange piece_of(ColumnRange range, std::int64_t length, std::int64_t index) {
  const std::int64_t begin = range.begin + index * length;
  return {begin, std::min(range.end, begin + length)};
}

std::int64_t pieces_of(std::int64_t size, std::int64_t length) {
  return (size + length - 1) / length;
}

// The storage that a tile reads: panels of A and B; rows of A, contiguous along the depth, and
// panels of B; or the columns of a transposed A and the rows of B.
enum class Reads { panels, rows_of_a, operands };

// Computes start + A · B, a tile of C with `rows` rows. The strides that are constants make the
// tile of panels faster.
template <class T, Reads reads, int rows, int vectors>
void multiply_by_panel(std::int64_t depth, Operand<T> a, Operand<T> b, Start<T> start, T* c,
                       std::int64_t c_row) {
  if (reads == Reads::panels) a = {a.data, 1, tile_rows};
  if (reads == Reads::rows_of_a) a.depth_stride = 1;
  if (reads == Reads::operands) a.row_stride = 1;
  const std::int64_t b_row = reads == Reads::operands ? b.depth_stride : tile_columns<T>;
  multiply_registers<T, rows, vectors>(depth, a, b.data, b_row, start, c, c_row);
}

template <class T>
using TileKernel = void (*)(std::int64_t depth, Operand<T> a, Operand<T> b, Start<T> start, T* c,
                            std::int64_t c_row);

// kernels[vectors - 1][rows - 1]
template <class T>
using TileKernels = std::array<std::array<TileKernel<T>, tile_rows>, tile_vectors>;

template <class T, Reads reads>
constexpr TileKernels<T> make_kernels() {
  const auto of_vectors = []<int vectors, int... r>(std::integral_constant<int, vectors>,
                                                    std::integer_sequence<int, r...>) {
    return std::array<TileKernel<T>, tile_rows>{multiply_by_panel<T, reads, r + 1, vectors>...};
  };
  return [&]<int... v>(std::integer_sequence<int, v...>) {
    return TileKernels<T>{of_vectors(std::integral_constant<int, v + 1>(),
                                     std::make_integer_sequence<int, tile_rows>())...};
  }
  (std::make_integer_sequence<int, tile_vectors>());
}

template <class T, Reads reads>
constexpr TileKernels<T> kernels = make_kernels<T, reads>();

// One product of A (m, k) and B (k, n), whatever their storage.
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

  // Computes rectangles of C independently, so that no thread waits for another one to pack.
  void run() const {
    const Cut cut(matmul_);
    parallel_for(cut.down * cut.across, 1, [&](std::int64_t begin, std::int64_t end) {
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

    explicit Cut(const Matmul& matmul) : rows(matmul.m), columns(matmul.n) {
      constexpr double worth_a_thread = 2e6, packing = 12;  // multiply-adds for each element
      const double flops = 2.0 * matmul.m * matmul.n * matmul.k;
      const std::int64_t threads = num_threads();
      const std::int64_t most =
          threads == 1 ? 1 : std::clamp(flops / worth_a_thread, 1.0, 2.0 * threads);
      double least = std::numeric_limits<double>::infinity();
      for (const std::int64_t pieces : {std::min(threads, most), most})
        for (std::int64_t y = 1; y <= pieces; ++y) {
          const std::int64_t x = pieces / y;
          const std::int64_t height = round_up(pieces_of(matmul.m, y), tile_rows);
          const std::int64_t width = round_up(pieces_of(matmul.n, x), tile_columns<T>);
          const double time = pieces_of(x * y, threads) *
                              (double(height * width) + packing * double(height + width));
          if (time < least) least = time, rows = height, columns = width;
        }
      down = pieces_of(matmul.m, rows), across = pieces_of(matmul.n, columns);
    }
  };

  // Returns what tiles read. Rows of A must not be all in the same cache lines, and packing them
  // pays if many columns use a tile of 14 rows (AVX-512). If a product is as narrow as a panel, its
  // operands are stored almost as panels are; so packing does not pay for the gradient of a narrow
  // layer's weight, Aᵀ B with a great depth.
  Reads reads() const {
    constexpr std::int64_t page = 4096;
    if (a_.depth_stride == 1) {
      const bool packing_pays = vector_registers == 32 && matmul_.n > 2 * tile_columns<T>;
      return packing_pays || a_.row_stride * sizeof(T) % page == 0 ? Reads::panels
                                                                   : Reads::rows_of_a;
    }
    const bool is_narrow = std::max(matmul_.m, matmul_.n) <= tile_columns<T>;
    return is_narrow && !matmul_.transpose_b && matmul_.n % simd_width<T> == 0 ? Reads::operands
                                                                               : Reads::panels;
  }

  // Returns a thread's memory for panels, which is reused, because new memory is not in the cache.
  static T* memory_for_panels(std::int64_t elements) {
    thread_local std::shared_ptr<std::byte[]> memory;
    thread_local std::int64_t room = 0;  // number of elements
    if (room < elements) {
      memory = allocate_workspace(sizeof(T) * elements);
      room = elements;
    }
    return reinterpret_cast<T*>(memory.get());
  }

  // Packs rows of A for some blocks of terms, then B panel by panel and block by block. A panel
  // stays in the nearest caches until all rows are done.
  void multiply(ColumnRange rows, ColumnRange columns) const {
    const std::int64_t height =
        round_up(pieces_of(rows.size(), pieces_of(rows.size(), most_rows)), tile_rows);
    const std::int64_t blocks = std::max<std::int64_t>(1, most_packed / height / depth_block);
    const std::int64_t length = std::min(blocks * depth_block, matmul_.k);
    const std::int64_t size_of_b = std::min(depth_block, matmul_.k) * tile_columns<T>;
    T* b = memory_for_panels(size_of_b + height * length + slack_of_panels<T, tile_rows>);
    T* a = b + size_of_b;
    for (std::int64_t i = 0; i < pieces_of(rows.size(), height); ++i)
      for (std::int64_t p = 0; p < pieces_of(matmul_.k, length); ++p) {
        const ColumnRange strip = piece_of(rows, height, i),
                          terms = piece_of({0, matmul_.k}, length, p);
        switch (reads()) {
          case Reads::panels:
            multiply_strip<Reads::panels>(strip, columns, terms, a, b);
            break;
          case Reads::rows_of_a:
            multiply_strip<Reads::rows_of_a>(strip, columns, terms, a, b);
            break;
          case Reads::operands:
            multiply_strip<Reads::operands>(strip, columns, terms, a, b);
        }
      }
  }

  // Computes C. a and b are memory for packed panels.
  template <Reads reads>
  void multiply_strip(ColumnRange rows, ColumnRange columns, ColumnRange terms, T* a, T* b) const {
    const auto panels_of = [&](ColumnRange block) {
      return a + (block.begin - terms.begin) * round_up(rows.size(), tile_rows);
    };
    const std::int64_t blocks = pieces_of(terms.size(), depth_block);
    for (std::int64_t p = 0; reads == Reads::panels && p < blocks; ++p) {
      const ColumnRange block = piece_of(terms, depth_block, p);
      pack_panels<T, tile_rows>(a_.from(rows.begin, block.begin), rows.size(), block.size(),
                                panels_of(block));
    }
    for (std::int64_t j = columns.begin; j < columns.end; j += tile_columns<T>)
      for (std::int64_t p = 0; p < blocks; ++p) {
        const ColumnRange block = piece_of(terms, depth_block, p);
        const ColumnRange tile{j, std::min<std::int64_t>(columns.end, j + tile_columns<T>)};
        const Operand<T> from = b_.from(j, block.begin);
        if (reads != Reads::operands)
          pack_panel<T, tile_columns<T>>(from, tile.size(), matmul_.n - j, block.size(), b);
        multiply_panel<reads>(rows, tile, block,
                              reads == Reads::panels
                                  ? Operand<T>{panels_of(block), block.size(), tile_rows}
                                  : a_.from(rows.begin, block.begin),
                              reads == Reads::operands ? from : Operand<T>{b, 1, tile_columns<T>});
      }
  }

  // Returns the values that the products of a block of terms are added to, for the tile at (i, j).
  Start<T> start_of(ColumnRange terms, std::int64_t i, std::int64_t j) const {
    if (terms.begin > 0 || matmul_.accumulate) return {c_ + i * matmul_.n + j, matmul_.n};
    return bias_ ? Start<T>{bias_ + j, 0} : Start<T>{};
  }

  // The row_stride of `a` (rows, terms) leads to the next tile, also if it is in panels.
  template <Reads reads>
  void multiply_panel(ColumnRange rows, ColumnRange columns, ColumnRange terms, Operand<T> a,
                      Operand<T> b) const {
    for (std::int64_t i = rows.begin; i < rows.end; i += tile_rows)
      multiply_into(kernels<T, reads>, c_ + i * matmul_.n + columns.begin,
                    std::min<std::int64_t>(tile_rows, rows.end - i), columns.size(), terms.size(),
                    a.from(i - rows.begin), b, start_of(terms, i, columns.begin));
  }

  // Computes a tile of C, in a buffer if it ends within a register.
  void multiply_into(const TileKernels<T>& by_size, T* c, std::int64_t height, std::int64_t width,
                     std::int64_t depth, Operand<T> a, Operand<T> b, Start<T> start) const {
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
  Operand<T> a_, b_;  // rows of b_ are the columns of C
  T* c_;
  const T* bias_;  // may be null
};

}  // namespace

void multiply_packed(const Matmul& matmul, const MatmulOperands& operands) {
  dispatch(matmul.dtype, [&]<class T>() { PackedProduct<T>(matmul, operands).run(); });
}

std::string tile_name() { return fmt::format("{}x{} tiles", tile_rows, tile_columns<float>); }

}  // namespace tapestry
