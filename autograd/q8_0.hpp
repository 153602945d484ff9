#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "autograd/float16.hpp"

namespace tapestry {

// 32 numbers of a q8_0 array: scale · numbers[i]. The type Q8_0 of GGUF stores the same block, with
// its scale in float16.
struct Q8Block {
  static constexpr std::int64_t size = 32;

  float scale;
  std::int8_t numbers[size];

  float operator[](std::int64_t i) const { return scale * static_cast<float>(numbers[i]); }
};
static_assert(sizeof(Q8Block) == 36);

// Writes the n numbers of a row of blocks; n is a multiple of the size of a block.
inline void read_q8_blocks(const Q8Block* row, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = row[i / Q8Block::size][i % Q8Block::size];
}

// Returns numbers as a block: d = max |x| / 127, q = x / d rounded to nearest, halves away from
// zero. The scale is d rounded to float16, so that GGUF stores the same numbers; d itself if it is
// too large for float16; NaN if a number is not finite.
inline Q8Block to_q8_block(std::span<const float, Q8Block::size> numbers) {
  float largest = 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) return {std::numeric_limits<float>::quiet_NaN(), {}};
    largest = std::max(largest, std::fabs(number));
  }
  const float d = largest / 127, inverse = d == 0 ? 0 : 1 / d;
  const float rounded = float_of_float16(float16_bits(d));
  Q8Block block{std::isfinite(rounded) ? rounded : d, {}};
  for (std::int64_t i = 0; i < Q8Block::size; ++i)
    block.numbers[i] = static_cast<std::int8_t>(std::lround(numbers[i] * inverse));
  return block;
}

}  // namespace tapestry
