#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tapestry {

// Returns the bits of the IEEE 754 half-precision number nearest to `value`, ties to even. Numbers
// that are too large become infinities, and NaN stays NaN.
inline std::uint16_t float16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (!(size < 65520.0F)) return sign | (std::isnan(value) ? 0x7E00 : 0x7C00);
  if (size < 0x1p-14F)  // subnormal: a multiple of 2⁻²⁴
    return sign | static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24F));
  const std::uint32_t rounded = (bits & 0x7FFFFFFF) + 0xFFF + (bits >> 13 & 1);
  return sign | static_cast<std::uint16_t>((rounded >> 13) - (112 << 10));
}

// Returns the value of a half-precision number: a sign, 5 bits of exponent (bias 15), 10 of
// fraction.
inline float float_of_float16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float magnitude;
  if (exponent == 31)
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  else
    magnitude = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// A bfloat16 number: the upper half of the bits of a float32.
enum class BFloat16 : std::uint16_t {};

// Returns the bits of a float32 rounded to the nearest bfloat16, ties to even. NaN stays NaN.
inline std::uint32_t round_to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return (x != x ? bits | 0x400000 : rounded) & 0xffff0000;
}

// Store x rounded to bfloat16: in 16 bits, or as a float32.
inline void store_rounded(float x, BFloat16& to) { to = BFloat16(round_to_bfloat16(x) >> 16); }
inline void store_rounded(float x, float& to) { to = std::bit_cast<float>(round_to_bfloat16(x)); }

inline float to_float(BFloat16 x) { return std::bit_cast<float>(std::uint32_t(x) << 16); }

}  // namespace tapestry
