#pragma once

#include <bit>
#include <cstdint>

// bfloat16: float32 without the lower half of its bits.
namespace tapestry {

enum class BFloat16 : std::uint16_t {};

// To the nearest, ties to even, as the bits of a float32 whose lower half is 0. NaN stays NaN.
inline std::uint32_t round_to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return (x != x ? bits | 0x400000 : rounded) & 0xffff0000;
}

inline void store_rounded(float x, BFloat16& to) { to = BFloat16(round_to_bfloat16(x) >> 16); }
inline float to_float(BFloat16 x) { return std::bit_cast<float>(std::uint32_t(x) << 16); }
inline void store_rounded(float x, float& to) { to = std::bit_cast<float>(round_to_bfloat16(x)); }

}  // namespace tapestry
