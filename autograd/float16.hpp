#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tapestry {

// The bits of the IEEE 754 half-precision number nearest to a float32, of two the even one; what is
// too large becomes an infinity.
inline std::uint16_t float16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (!(size < 65520.0F)) return sign | (std::isnan(value) ? 0x7E00 : 0x7C00);
  if (size < 0x1p-14F)  // subnormal: so many times 2⁻²⁴
    return sign | static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24F));
  const std::uint32_t rounded = (bits & 0x7FFFFFFF) + 0xFFF + (bits >> 13 & 1);
  return sign | static_cast<std::uint16_t>((rounded >> 13) - (112 << 10));
}

}  // namespace tapestry
