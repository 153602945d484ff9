#pragma once

#include "autograd/float16.hpp"
#include "autograd/kernels/register_tile.hpp"

// Tiles of products of operands rounded to bfloat16, for processors that multiply pairs of such
// numbers and add both products to a float32 sum.
namespace tapestry {

// The instructions that multiply bfloat16 numbers: those of the processor that the level of this
// library may use, and AMX only if Linux lets the process use it.
enum class BFloat16Instructions { none, avx512, amx };
BFloat16Instructions bfloat16_instructions();

#ifdef __AVX512F__

// Operands are packed into squares of 16 rows and 32 terms (1 KB), and a panel is a sequence of
// blocks of 32 terms of 2 squares, one for its rows 0 to 15 and one for the others. A square is
// either row by row, or pair by pair: for each two terms those of row 0, then those of row 1.
enum class SquareOrder { rows, pairs };
inline constexpr std::int64_t square_rows = 16, square_terms = 32, bfloat16_tile = 32;
inline constexpr std::int64_t square_size = square_rows * square_terms;

// Packs `count` rows into panels of 32. Missing rows and terms become 0.
void pack_bfloat16(Operand<float> from, std::int64_t count, std::int64_t depth, SquareOrder order,
                   BFloat16* to);

// Configures this thread's tile registers for 16 rows of 64 bytes each. The destructor releases
// them, because their state would slow down switches between threads; so guards are not nested.
class UseTileRegisters {
 public:
  UseTileRegisters();
  ~UseTileRegisters();
  UseTileRegisters(const UseTileRegisters&) = delete;
  UseTileRegisters& operator=(const UseTileRegisters&) = delete;
};

// Compute C (32, 32) = start + A · B of panels of `blocks` blocks of 32 terms: A row by row, B pair
// by pair. The two differ in the order in which products are added, and count subnormal numbers as
// 0. multiply_by_amx() needs a UseTileRegisters.
void multiply_by_avx512(std::int64_t blocks, const BFloat16* a, const BFloat16* b,
                        Start<float> start, float* c, std::int64_t c_row);
void multiply_by_amx(std::int64_t blocks, const BFloat16* a, const BFloat16* b, Start<float> start,
                     float* c, std::int64_t c_row);

#endif

}  // namespace tapestry
