#include "autograd/kernels/bfloat16_tiles.hpp"

#include "autograd/kernels/panels.hpp"

#ifdef __AVX512F__
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tapestry {

#ifndef __AVX512F__

BFloat16Instructions bfloat16_instructions() { return BFloat16Instructions::none; }

#else

namespace {

// Asks Linux for the tile registers, which a process may not use before. Linux refuses if a thread
// has an alternate signal stack that is too small for them, and later refuses such stacks
// (https://docs.kernel.org/arch/x86/xstate.html).
bool may_use_tile_registers() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// Intel's Architecture Instruction Set Extensions Programming Reference (319433), chapter 1.
BFloat16Instructions find_instructions() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned int avx512_bf16 = 1U << 5, amx_bf16 = 1U << 22, amx_tile = 1U << 24;
  if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || (eax & avx512_bf16) == 0)
    return BFloat16Instructions::none;
  __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
  const bool has_amx = (edx & amx_bf16) != 0 && (edx & amx_tile) != 0;
  return has_amx && may_use_tile_registers() ? BFloat16Instructions::amx
                                             : BFloat16Instructions::avx512;
}

// Returns a mask of the first n lanes, or of all.
__mmask16 first_lanes(std::int64_t n) { return (1U << std::clamp<std::int64_t>(n, 0, 16)) - 1; }

// Returns 16 pairs of numbers that follow each other, of which `count` numbers exist.
[[gnu::target("avx512bf16")]] Lanes<float> pairs_of_row(const float* from, std::int64_t count) {
  const __m512 first = _mm512_maskz_loadu_ps(first_lanes(count), from);
  const __m512 second = _mm512_maskz_loadu_ps(first_lanes(count - 16), from + 16);
  return (Lanes<float>)_mm512_cvtne2ps_pbh(second, first);
}

// Returns the pairs of the numbers of two rows, of which `count` each exist. The second row may be
// null.
[[gnu::target("avx512bf16")]] Lanes<float> pairs_of_rows(const float* first, const float* second,
                                                         std::int64_t count) {
  const __m512i interleaved =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,  //
                       23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __mmask16 mask = first_lanes(count);
  const __m512bh numbers = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(second ? mask : 0, second),
                                               _mm512_maskz_loadu_ps(mask, first));
  return (Lanes<float>)_mm512_permutexvar_epi16(interleaved, (__m512i)numbers);
}

// Packs a square. Of the operand, `rows` and `terms` are left: fewer than the square has, 0 or less
// included, or more.
[[gnu::target("avx512bf16")]] void pack_square(Operand<float> from, std::int64_t rows,
                                               std::int64_t terms, SquareOrder order,
                                               BFloat16* to) {
  Lanes<float> square[16] = {};
  const bool by_row = from.depth_stride == 1;
  if (by_row) {
    for (std::int64_t row = 0; row < std::min(rows, square_rows); ++row) {
      const float* terms_of_row = from.from(row).data;
      prefetch(terms_of_row + 4 * square_terms);
      prefetch(terms_of_row + 4 * square_terms + 16);
      square[row] = pairs_of_row(terms_of_row, terms);
    }
  } else {
    for (std::int64_t p = 0; p < std::min(terms, square_terms); p += 2) {
      square[p / 2] = pairs_of_rows(from.from(0, p).data,
                                    p + 1 < terms ? from.from(0, p + 1).data : nullptr, rows);
    }
  }
  if (by_row != (order == SquareOrder::rows)) transpose<float>(square);
  std::memcpy(to, square, sizeof(square));
}

[[gnu::target("amx-tile")]] void configure_tile_registers() {
  struct alignas(64) Configuration {
    std::uint8_t palette = 1, first_row = 0, reserved[14] = {};
    std::uint16_t bytes_of_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static constexpr Configuration all_of_1_kb;
  _tile_loadconfig(&all_of_1_kb);
}

[[gnu::target("amx-tile")]] void release_tile_registers() { _tile_release(); }

}  // namespace

BFloat16Instructions bfloat16_instructions() {
  static const BFloat16Instructions found = find_instructions();
  return found;
}

// Reads the operand in the order in which it is stored.
void pack_bfloat16(Operand<float> from, std::int64_t count, std::int64_t depth, SquareOrder order,
                   BFloat16* to) {
  const std::int64_t blocks = (depth + square_terms - 1) / square_terms;
  const std::int64_t panels = (count + bfloat16_tile - 1) / bfloat16_tile;
  const auto pack_block = [&](std::int64_t panel, std::int64_t block) {
    BFloat16* squares = to + (panel * blocks + block) * 2 * square_size;
    for (const std::int64_t first : {std::int64_t{0}, square_rows}) {
      const std::int64_t row = panel * bfloat16_tile + first, term = block * square_terms;
      pack_square(from.from(row, term), count - row, depth - term, order, squares);
      squares += square_size;
    }
  };
  if (from.depth_stride == 1) {
    for (std::int64_t panel = 0; panel < panels; ++panel)
      for (std::int64_t block = 0; block < blocks; ++block) pack_block(panel, block);
  } else {
    for (std::int64_t block = 0; block < blocks; ++block)
      for (std::int64_t panel = 0; panel < panels; ++panel) pack_block(panel, block);
  }
}

// Eight rows at a time, whose sums fit into registers.
[[gnu::target("avx512bf16")]] void multiply_by_avx512(std::int64_t blocks, const BFloat16* a,
                                                      const BFloat16* b, Start<float> start,
                                                      float* c, std::int64_t c_row) {
  constexpr int rows = 8;
  for (std::int64_t first = 0; first < bfloat16_tile; first += rows) {
    const BFloat16* row_of_a =
        a + first / square_rows * square_size + first % square_rows * square_terms;
    __m512 sums[rows][2];
    for (int r = 0; r < rows; ++r)
      for (int half = 0; half < 2; ++half)
        sums[r][half] = start.data
                            ? _mm512_loadu_ps(start.data + (first + r) * start.row + half * 16)
                            : _mm512_setzero_ps();
    for (std::int64_t block = 0; block < blocks; ++block)
      for (std::int64_t p = 0; p < square_terms; p += 2) {
        const BFloat16* pairs = b + 2 * block * square_size + p * square_rows;
        const __m512bh left = (__m512bh)_mm512_loadu_ps(pairs);
        const __m512bh right = (__m512bh)_mm512_loadu_ps(pairs + square_size);
        for (int r = 0; r < rows; ++r) {
          float pair;
          std::memcpy(&pair, row_of_a + 2 * block * square_size + r * square_terms + p,
                      sizeof(pair));
          __m512 x = _mm512_set1_ps(pair);
          asm("" : "+v"(x));  // Clang 16 would crash at a cast of equal numbers
          sums[r][0] = _mm512_dpbf16_ps(sums[r][0], (__m512bh)x, left);
          sums[r][1] = _mm512_dpbf16_ps(sums[r][1], (__m512bh)x, right);
        }
      }
    for (int r = 0; r < rows; ++r)
      for (int half = 0; half < 2; ++half)
        _mm512_storeu_ps(c + (first + r) * c_row + half * 16, sums[r][half]);
  }
}

UseTileRegisters::UseTileRegisters() {
  if (bfloat16_instructions() == BFloat16Instructions::amx) configure_tile_registers();
}

UseTileRegisters::~UseTileRegisters() {
  if (bfloat16_instructions() == BFloat16Instructions::amx) release_tile_registers();
}

// The tile registers 0 to 3 hold sums, 4 and 5 squares of A, 6 and 7 squares of B.
[[gnu::target("amx-tile,amx-bf16")]] void multiply_by_amx(std::int64_t blocks, const BFloat16* a,
                                                          const BFloat16* b, Start<float> start,
                                                          float* c, std::int64_t c_row) {
  // GCC's loads of tiles do not say that they read memory.
  asm volatile("" ::: "memory");
  constexpr std::int64_t row_bytes = 64;
  const std::int64_t c_bytes = c_row * sizeof(float), start_bytes = start.row * sizeof(float);
  for (std::int64_t r = 0; r < bfloat16_tile; ++r) {
    __builtin_prefetch(c + r * c_row, 1);
    __builtin_prefetch(c + r * c_row + bfloat16_tile - 1, 1);
  }
  if (start.data) {
    _tile_loadd(0, start.data, start_bytes);
    _tile_loadd(1, start.data + 16, start_bytes);
    _tile_loadd(2, start.data + 16 * start.row, start_bytes);
    _tile_loadd(3, start.data + 16 * start.row + 16, start_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t block = 0; block < blocks; ++block) {
    _tile_loadd(4, a, row_bytes);
    _tile_loadd(5, a + square_size, row_bytes);
    _tile_loadd(6, b, row_bytes);
    _tile_loadd(7, b + square_size, row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += 2 * square_size, b += 2 * square_size;
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + 16, c_bytes);
  _tile_stored(2, c + 16 * c_row, c_bytes);
  _tile_stored(3, c + 16 * c_row + 16, c_bytes);
}

#endif

}  // namespace tapestry
