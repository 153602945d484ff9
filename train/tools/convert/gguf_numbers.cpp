#include "train/tools/convert/gguf_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "autograd/check.hpp"
#include "autograd/float16.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t scale_bytes = sizeof(std::uint16_t), block_bytes = scale_bytes + gguf_block;

std::uint16_t finite_float16(float number) {
  const std::uint16_t bits = float16_bits(number);
  expect_input(std::isfinite(float_of_float16(bits)),
               "{} is too large for float16, which goes up to 65504", number);
  return bits;
}

// d = max |x| / 127, q = x / d rounded to the nearest, halves away from zero.
void store_block(std::span<const float> numbers, char* to) {
  float largest = 0;
  for (const float number : numbers) largest = std::max(largest, std::fabs(number));
  const float scale = largest / 127, inverse = scale == 0 ? 0 : 1 / scale;
  const std::uint16_t bits = finite_float16(scale);
  std::memcpy(to, &bits, scale_bytes);
  for (std::int64_t i = 0; i < gguf_block; ++i)
    to[scale_bytes + i] = static_cast<char>(std::lround(numbers[i] * inverse));
}

void read_block(const char* from, std::span<float> numbers) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, scale_bytes);
  const float scale = float_of_float16(bits);
  for (std::int64_t i = 0; i < gguf_block; ++i)
    numbers[i] = static_cast<float>(static_cast<std::int8_t>(from[scale_bytes + i])) * scale;
}

}  // namespace

const char* name_of(GgufType type) {
  return type == GgufType::f32 ? "F32" : type == GgufType::f16 ? "F16" : "Q8_0";
}

std::int64_t gguf_bytes(GgufType type, std::int64_t numbers) {
  switch (type) {
    case GgufType::f32:
      return numbers * static_cast<std::int64_t>(sizeof(float));
    case GgufType::f16:
      return numbers * static_cast<std::int64_t>(sizeof(std::uint16_t));
    case GgufType::q8_0:
      return numbers / gguf_block * block_bytes;
  }
  throw_unhandled("GgufType");
}

std::string gguf_stored(std::span<const float> numbers, GgufType type) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  std::string bytes(gguf_bytes(type, count), '\0');
  if (type == GgufType::f32) {
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
  } else if (type == GgufType::f16) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint16_t bits = finite_float16(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof(bits), &bits, sizeof(bits));
    }
  } else {
    for (std::int64_t block = 0; block < count / gguf_block; ++block)
      store_block(numbers.subspan(block * gguf_block, gguf_block),
                  bytes.data() + block * block_bytes);
  }
  return bytes;
}

void read_gguf_numbers(std::string_view bytes, GgufType type, std::span<float> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  require(std::ssize(bytes) == gguf_bytes(type, count), "read_gguf_numbers: {} bytes for {} {}",
          bytes.size(), count, name_of(type));
  if (type == GgufType::f32) {
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
  } else if (type == GgufType::f16) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
      numbers[i] = float_of_float16(bits);
    }
  } else {
    for (std::int64_t block = 0; block < count / gguf_block; ++block)
      read_block(bytes.data() + block * block_bytes,
                 numbers.subspan(block * gguf_block, gguf_block));
  }
}

}  // namespace tapestry
