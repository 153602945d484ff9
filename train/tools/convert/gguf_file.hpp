#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/array.hpp"
#include "autograd/q8_0.hpp"
#include "autograd/variant.hpp"
#include "data/json.hpp"

// The GGUF format (github.com/ggml-org/ggml, docs/gguf.md): "GGUF", a version and two counts, then
// fields, the tensors' names, shapes and offsets, and their numbers, all little-endian.
namespace tapestry {

// The storage type of a tensor in a GGUF file. q8_0 stores 32 numbers as a block: a scale in
// float16, which is the largest magnitude divided by 127, and 32 integers of a byte, by which the
// scale is multiplied.
enum class GgufType : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };
inline constexpr std::int64_t gguf_block = Q8Block::size, gguf_scale_bytes = sizeof(std::uint16_t),
                              gguf_block_bytes = gguf_scale_bytes + gguf_block;

// Returns "F32", also for the types of the format that GgufType lacks; "number 5" for others.
std::string name_of(GgufType type);

// Returns the size in bytes of `numbers` numbers; q8_0 needs a multiple of gguf_block.
std::int64_t gguf_bytes(GgufType type, std::int64_t numbers);

// Returns finite numbers in the bits that llama.cpp stores. Throws InputError if one is too large
// for the type: for float16, bfloat16, or in q8_0 for 127 times the largest float16.
std::string gguf_stored(std::span<const float> numbers, GgufType type);

// Converts stored numbers to float32. Throws std::invalid_argument unless `bytes` has the size
// gguf_bytes() of numbers.size().
void read_gguf_numbers(std::string_view bytes, GgufType type, std::span<float> numbers);

struct GgufField {
  std::string name;  // "llama.block_count"
  Variant<bool, std::uint32_t, float, std::string, std::vector<std::int32_t>,
          std::vector<std::string>>
      value;
};

struct GgufTensor {
  std::string name;  // "blk.0.attn_q.weight"
  GgufType type = GgufType::f32;
  Shape shape{};  // (out, in) of a projection; the file has the reverse order
};

// The types of fields, with their numbers in the format.
enum class GgufFieldType : std::uint32_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  float32,
  flag,
  text,
  list,
  uint64,
  int64,
  float64
};

inline constexpr std::uint32_t gguf_version = 3;
inline constexpr std::uint64_t gguf_alignment = 32;  // default alignment of the tensors' data

// Returns the offset rounded up to a multiple of the alignment.
inline std::uint64_t gguf_aligned(std::uint64_t offset, std::uint64_t alignment = gguf_alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// Writes a file with stream_file_atomically(). `values` is called for each tensor in order and
// returns float32 of its shape. Throws InputError that names the tensor if a number is not finite
// or too large for the type, and FileError if the file cannot be written.
void write_gguf(const std::string& path, const std::vector<GgufField>& fields,
                const std::vector<GgufTensor>& tensors,
                const std::function<Array(std::size_t tensor)>& values);

// A reader of a file. The constructor reads and checks the header, and throws InputError that names
// the file and the byte, field or tensor: for another version, counts and lengths that exceed the
// file, repeated names, strings that are not UTF-8, types other than GgufType's, tensors that are
// not contiguous, and a header above 32 MiB. In addition to the data, the reader takes at most 40
// bytes of memory per byte of the header.
class GgufReader final {
 public:
  explicit GgufReader(const std::string& path);

  const std::string& path() const { return path_; }
  // Returns an object of numbers, strings, booleans and lists of them. A float32 becomes the
  // shortest decimal number that represents it.
  const JsonValue& fields() const { return fields_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // Returns the numbers as float32. Throws InputError if the file cannot be read.
  Array read(std::size_t tensor);

 private:
  std::string path_;
  std::ifstream stream_;
  JsonValue fields_ = JsonValue::object();
  std::vector<GgufTensor> tensors_{};
  std::vector<std::uint64_t> begins_{};  // offsets of the tensors in the file
};

}  // namespace tapestry
