#include <fmt/core.h>

#include <utility>

#include "autograd/dry_run.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/packed_product.hpp"
#include "autograd/kernels/panels.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

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

// Tiles that stay in vector registers.
template <class T, Reads reads>
struct RegisterTiles {
  using Number = T;
  using Packed = T;
  struct Registers {};
  static constexpr std::int64_t rows = tile_rows, columns = tile_columns<T>;
  static constexpr std::int64_t row_step = 1, column_step = simd_width<T>;
  // One panel of B takes 48 KB with AVX-512, and tiles read it as fast from the L2 cache as from
  // L1.
  static constexpr std::int64_t depth_block = 384, depth_step = 1;
  static constexpr std::int64_t slack = slack_of_panels<T, tile_rows>;
  // 768 KB of float32, which fit an L2 cache of 1 MB.
  static constexpr std::int64_t most_rows = 512, most_packed = most_rows * depth_block;
  static constexpr std::int64_t panels_together = 1;
  static constexpr double packing = 12, worth_a_thread = 2e6;
  static constexpr bool packs_a = reads == Reads::panels, packs_b = reads != Reads::operands;

  static void pack_a(Operand<T> from, std::int64_t count, std::int64_t following,
                     std::int64_t depth, T* to) {
    pack_panels<T, rows>(from, count, following, depth, to);
  }
  static void pack_b(Operand<T> from, std::int64_t count, std::int64_t following,
                     std::int64_t depth, T* to) {
    pack_panels<T, columns>(from, count, following, depth, to);
  }
  static bool fits(std::int64_t, std::int64_t width) { return width % simd_width<T> == 0; }
  static void multiply(std::int64_t height, std::int64_t width, std::int64_t depth, Operand<T> a,
                       Operand<T> b, Start<T> start, T* c, std::int64_t c_row) {
    const std::int64_t vectors = pieces_of(width, simd_width<T>);
    kernels<T, reads>[vectors - 1][height - 1](depth, a, b, start, c, c_row);
  }
};

// Returns whether the operands of a product Aᵀ B, with a small result and a great depth, are stored
// almost as panels are, as for the gradient of a narrow layer's weight.
template <class T>
bool is_narrow(const Matmul& matmul) {
  return matmul.transpose_a && !matmul.transpose_b &&
         std::max(matmul.m, matmul.n) <= tile_columns<T>;
}

// Returns what tiles read. Rows of A must not be all in the same cache lines, and packing them
// pays if many columns use a tile: of 14 rows (AVX-512) three tiles, of 6 rows (AVX2) 32 tiles. It
// does not pay for a narrow product.
template <class T>
Reads what_is_read(const Matmul& matmul) {
  constexpr std::int64_t page = 4096, many_columns = vector_registers == 32 ? 64 : 511;
  if (matmul.transpose_a)
    return is_narrow<T>(matmul) && matmul.n % simd_width<T> == 0 ? Reads::operands : Reads::panels;
  return matmul.n > many_columns || matmul.k * sizeof(T) % page == 0 ? Reads::panels
                                                                     : Reads::rows_of_a;
}

template <class T>
void multiply_in_registers(const Matmul& matmul, const MatmulOperands& operands) {
  switch (what_is_read<T>(matmul)) {
    case Reads::panels:
      return PackedProduct<RegisterTiles<T, Reads::panels>>(matmul, operands).run();
    case Reads::rows_of_a:
      return PackedProduct<RegisterTiles<T, Reads::rows_of_a>>(matmul, operands).run();
    case Reads::operands:
      return PackedProduct<RegisterTiles<T, Reads::operands>>(matmul, operands).run();
  }
}

// Computes a narrow product C = Aᵀ B as the transposed Bᵀ A, which has the same bits.
template <class T>
void multiply_transposed(Matmul matmul, MatmulOperands operands) {
  alignas(64) T transposed[tile_columns<T> * tile_columns<T>];
  T* c = reinterpret_cast<T*>(operands.c);
  const std::int64_t rows = matmul.m, columns = matmul.n;
  for (std::int64_t i = 0; i < rows && matmul.accumulate; ++i)
    for (std::int64_t j = 0; j < columns; ++j) transposed[j * rows + i] = c[i * columns + j];
  std::swap(matmul.m, matmul.n);
  std::swap(operands.a, operands.b);
  operands.c = reinterpret_cast<std::byte*>(transposed);
  multiply_in_registers<T>(matmul, operands);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) c[i * columns + j] = transposed[j * rows + i];
}

template <class T>
void multiply_narrow(const Matmul& matmul, const MatmulOperands& operands) {
  const bool fills_rows = matmul.n % simd_width<T> == 0;
  const bool fills_columns = matmul.m % simd_width<T> == 0;
  if (!fills_rows && fills_columns)
    multiply_transposed<T>(matmul, operands);
  else
    multiply_in_registers<T>(matmul, operands);
}

// Computes a narrow product by blocks of terms, which threads divide, and adds the products of the
// blocks in their order, as multiply_narrow() does.
template <class T>
void multiply_deep(const Matmul& matmul, const MatmulOperands& operands) {
  constexpr double worth_a_thread = 1e6;
  constexpr std::int64_t terms = RegisterTiles<T, Reads::operands>::depth_block;
  const std::int64_t blocks = pieces_of(matmul.k, terms), size = matmul.m * matmul.n;
  const auto memory = allocate_workspace(blocks * size * sizeof(T));
  T* products = reinterpret_cast<T*>(memory.get());
  const std::int64_t grain = std::max(1.0, worth_a_thread / (2.0 * double(size) * terms));
  parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      Matmul block = matmul;
      block.k = std::min(terms, matmul.k - p * terms);
      block.accumulate = false;
      multiply_narrow<T>(block, {operands.a + p * terms * matmul.m * sizeof(T),
                                 operands.b + p * terms * matmul.n * sizeof(T),
                                 reinterpret_cast<std::byte*>(products + p * size)});
    }
  });
  T* c = reinterpret_cast<T*>(operands.c);
  if (!matmul.accumulate) std::copy_n(products, size, c);
  for (std::int64_t p = matmul.accumulate ? 0 : 1; p < blocks; ++p)
    map_span(size, {c, products + p * size}, c, [](auto x, auto y) { return x + y; });
}

// Panels of a whole B: `columns` columns of all terms, which tiles read in blocks of terms.

template <class T>
using WholePanels = RegisterTiles<T, Reads::rows_of_a>;

template <class T>
void pack_whole(const Matmul& matmul, const std::byte* b, std::byte* to) {
  using Tiles = WholePanels<T>;
  const Operand<T> from{reinterpret_cast<const T*>(b), matmul.transpose_b ? matmul.k : 1,
                        matmul.transpose_b ? 1 : matmul.n};
  parallel_for(pieces_of(matmul.n, Tiles::columns), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin * Tiles::columns; j < std::min(end * Tiles::columns, matmul.n);
         j += Tiles::columns)
      Tiles::pack_b(from.from(j), std::min(Tiles::columns, matmul.n - j), matmul.n - j, matmul.k,
                    reinterpret_cast<T*>(to) + j * matmul.k);
  });
}

// Computes the columns of C of one panel, in tiles of about the same height.
template <class T>
void multiply_by_whole_panel(const Matmul& matmul, Operand<T> a, const T* panel, T* c,
                             std::int64_t c_row) {
  using Tiles = WholePanels<T>;
  const std::int64_t tiles = pieces_of(matmul.m, Tiles::rows);
  for (std::int64_t p = 0; p < matmul.k; p += Tiles::depth_block)
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::int64_t row = i * matmul.m / tiles, end = (i + 1) * matmul.m / tiles;
      T* tile = c + row * c_row;
      const bool adds = p > 0 || matmul.accumulate;
      Tiles::multiply(end - row, Tiles::columns, std::min(Tiles::depth_block, matmul.k - p),
                      a.from(row, p), {panel + p * Tiles::columns, 1, Tiles::columns},
                      adds ? Start<T>{tile, c_row} : Start<T>{}, tile, c_row);
    }
}

}  // namespace

// Rows of A end with a free cache line, so that they are not all in the same cache lines.
PackedMatrix::PackedMatrix(const Matmul& matmul, const std::byte* b, std::int64_t products)
    : matmul_(matmul), b_(b), row_of_a_(matmul.k), row_of_c_(matmul.n) {
  if (products <= 1 || matmul.m * matmul.n * matmul.k == 0 || !reads_panels(matmul)) return;
  dispatch(matmul.dtype, [&]<class T>() {
    constexpr std::int64_t line = 64 / sizeof(T);
    row_of_a_ = round_up(matmul.k, line) + line;
    row_of_c_ = round_up(matmul.n, WholePanels<T>::columns);
    panels_ = allocate_workspace(row_of_c_ * matmul.k * sizeof(T));
    pack_whole<T>(matmul, b, panels_.get());
  });
}

void PackedMatrix::multiply(const std::byte* a, std::byte* c) const {
  if (!panels_) return multiply_matrices(matmul_, {{a, b_, c}});
  const double flops = 2.0 * matmul_.m * matmul_.n * matmul_.k;
  profile::add_flops(flops);
  dispatch(matmul_.dtype, [&]<class T>() {
    constexpr std::int64_t columns = WholePanels<T>::columns;
    constexpr double worth_a_thread = 1e6;
    const std::int64_t panels = row_of_c_ / columns;
    const std::int64_t grain = std::max(1.0, worth_a_thread * double(panels) / flops);
    const auto* packed = reinterpret_cast<const T*>(panels_.get());
    parallel_for(panels, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin * columns; j < end * columns; j += columns)
        multiply_by_whole_panel<T>(matmul_, {reinterpret_cast<const T*>(a), row_of_a_, 1},
                                   packed + j * matmul_.k, reinterpret_cast<T*>(c) + j, row_of_c_);
    });
  });
}

void multiply_packed(const Matmul& matmul, const MatmulOperands& operands) {
  if (is_dry_run()) return;
  dispatch(matmul.dtype, [&]<class T>() {
    if (!is_narrow<T>(matmul) || operands.bias)
      multiply_in_registers<T>(matmul, operands);
    else if (num_threads() > 1 && matmul.k > RegisterTiles<T, Reads::operands>::depth_block)
      multiply_deep<T>(matmul, operands);
    else
      multiply_narrow<T>(matmul, operands);
  });
}

std::string tile_name() { return fmt::format("{}x{} tiles", tile_rows, tile_columns<float>); }

}  // namespace tapestry
