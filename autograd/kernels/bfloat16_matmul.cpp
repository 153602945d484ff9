#include "autograd/buffer_pool.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/bfloat16_tiles.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/packed_product.hpp"

namespace tapestry {
namespace {

#ifdef __AVX512F__

// Tiles of 32 × 32 sums, computed by the best instructions of the processor. Packing takes more of
// the time than with float32, so strips that are kept are larger: up to 1 MB, half of the L2
// cache of processors with AMX.
struct BFloat16Tiles {
  using Number = float;
  using Packed = BFloat16;
  using Registers = UseTileRegisters;
  static constexpr std::int64_t rows = bfloat16_tile, columns = bfloat16_tile;
  static constexpr std::int64_t row_step = rows, column_step = columns;
  static constexpr std::int64_t depth_block = 1024, depth_step = square_terms, slack = 0;
  static constexpr std::int64_t most_rows = 512, most_packed = 384 * depth_block;
  static constexpr std::int64_t panels_together = 4;
  static constexpr double packing = 150, worth_a_thread = 3e6;
  static constexpr bool packs_a = true, packs_b = true;

  static void pack_a(Operand<float> from, std::int64_t count, std::int64_t, std::int64_t depth,
                     BFloat16* to) {
    pack_bfloat16(from, count, depth, SquareOrder::rows, to);
  }
  static void pack_b(Operand<float> from, std::int64_t count, std::int64_t, std::int64_t depth,
                     BFloat16* to) {
    pack_bfloat16(from, count, depth, SquareOrder::pairs, to);
  }
  static bool fits(std::int64_t height, std::int64_t width) {
    return height == rows && width == columns;
  }
  static void multiply(std::int64_t, std::int64_t, std::int64_t depth, Operand<BFloat16> a,
                       Operand<BFloat16> b, Start<float> start, float* c, std::int64_t c_row) {
    const auto multiply_panels =
        bfloat16_instructions() == BFloat16Instructions::amx ? multiply_by_amx : multiply_by_avx512;
    multiply_panels(pieces_of(depth, square_terms), a.data, b.data, start, c, c_row);
  }
};

#endif

// Returns a copy whose numbers are rounded to bfloat16.
std::shared_ptr<std::byte[]> round(const std::byte* operand, std::int64_t n) {
  std::shared_ptr<std::byte[]> copy = allocate_workspace(n * sizeof(float));
  const auto* from = reinterpret_cast<const float*>(operand);
  auto* to = reinterpret_cast<float*>(copy.get());
  parallel_for(n, 65536, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) store_rounded(from[i], to[i]);
  });
  return copy;
}

}  // namespace

bool has_bfloat16_products() { return bfloat16_instructions() != BFloat16Instructions::none; }

std::string bfloat16_name() {
  switch (bfloat16_instructions()) {
    case BFloat16Instructions::amx:
      return "AMX";
    case BFloat16Instructions::avx512:
      return "AVX512-BF16";
    case BFloat16Instructions::none:
      break;
  }
  return {};
}

void multiply_rounded(const Matmul& matmul, const MatmulOperands& operands) {
#ifdef __AVX512F__
  if (has_bfloat16_products()) return PackedProduct<BFloat16Tiles>(matmul, operands).run();
#endif
  if (is_dry_run()) return;
  const auto a = round(operands.a, matmul.m * matmul.k), b = round(operands.b, matmul.k * matmul.n);
  multiply_packed(matmul, {a.get(), b.get(), operands.c, operands.bias});
}

}  // namespace tapestry
