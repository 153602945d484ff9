#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tapestry {

// How a GGUF file stores a tensor's numbers. q8_0: of each 32, the largest size over 127 as
// float16, then 32 whole numbers of a byte to be multiplied by it.
enum class GgufType : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8 };

inline constexpr std::int64_t gguf_block = 32;  // numbers that q8_0 stores together

const char* name_of(GgufType type);  // "F32"

// Of so many numbers, of q8_0 whole blocks.
std::int64_t gguf_bytes(GgufType type, std::int64_t numbers);

// As llama.cpp stores them, bit for bit; they are finite. InputError where one is too large for
// float16, or of q8_0 for 127 times that.
std::string gguf_stored(std::span<const float> numbers, GgufType type);

// So many float32 as the bytes are.
void read_gguf_numbers(std::string_view bytes, GgufType type, std::span<float> numbers);

}  // namespace tapestry
