#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "autograd/check.hpp"
#include "autograd/q8_0.hpp"
#include "train/run/atomic_file.hpp"
#include "train/tools/convert/gguf_file.hpp"

namespace tapestry {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

std::uint16_t finite_bfloat16(float number) {
  BFloat16 rounded{};
  store_rounded(number, rounded);
  expect_input(std::isfinite(to_float(rounded)),
               "the number {} is too large for bfloat16; use float32", number);
  return static_cast<std::uint16_t>(rounded);
}

std::uint16_t finite_float16(float number, const char* what) {
  const std::uint16_t bits = float16_bits(number);
  expect_input(std::isfinite(float_of_float16(bits)),
               "the {} {} is too large for float16, which goes up to 65504; export with --dtype "
               "float32",
               what, number);
  return bits;
}

// Stores a block. Throws InputError if a number is not finite, or the scale too large for float16.
void store_block(std::span<const float, Q8Block::size> numbers, char* to) {
  const Q8Block block = to_q8_block(numbers);
  expect_input(!std::isnan(block.scale), "has numbers that are not finite; train the model again");
  const std::uint16_t bits = finite_float16(block.scale, "scale");
  std::memcpy(to, &bits, gguf_scale_bytes);
  std::memcpy(to + gguf_scale_bytes, block.numbers, sizeof(block.numbers));
}

template <class T>
constexpr GgufFieldType field_type = std::is_same_v<T, bool>            ? GgufFieldType::flag
                                     : std::is_same_v<T, std::uint32_t> ? GgufFieldType::uint32
                                     : std::is_same_v<T, std::int32_t>  ? GgufFieldType::int32
                                     : std::is_same_v<T, float>         ? GgufFieldType::float32
                                                                        : GgufFieldType::text;

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void append(std::string& bytes, const std::string& text) {
  append(bytes, std::uint64_t{text.size()});
  bytes += text;
}

template <class Value>
void append_typed(std::string& bytes, const Value& value) {
  append(bytes, field_type<Value>);
  append(bytes, value);
}

template <class Element>
void append_typed(std::string& bytes, const std::vector<Element>& list) {
  append(bytes, GgufFieldType::list);
  append(bytes, field_type<Element>);
  append(bytes, std::uint64_t{list.size()});
  for (const Element& element : list) append(bytes, element);
}

// Returns the part of the file before the tensors' data.
std::string header_of(const std::vector<GgufField>& fields,
                      const std::vector<GgufTensor>& tensors) {
  std::string header = "GGUF";
  append(header, gguf_version);
  append(header, std::uint64_t{tensors.size()});
  append(header, std::uint64_t{fields.size()});
  for (const GgufField& field : fields) {
    append(header, field.name);
    std::visit([&](const auto& value) { append_typed(header, value); }, field.value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    append(header, tensor.name);
    append(header, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis)
      append(header, static_cast<std::uint64_t>(tensor.shape[axis]));
    append(header, tensor.type);
    append(header, offset);
    offset += gguf_aligned(gguf_bytes(tensor.type, tensor.shape.elements()));
  }
  header.resize(gguf_aligned(header.size()), '\0');
  return header;
}

void write_numbers(File& file, const GgufTensor& tensor, std::span<const float> numbers) try {
  constexpr std::size_t part = std::size_t{1} << 20;  // whole blocks
  expect_input(std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); }),
               "holds numbers that are not finite; expected finite ones, use another checkpoint");
  std::uint64_t written = 0;
  for (std::size_t begin = 0; begin < numbers.size(); begin += part) {
    const std::string bytes =
        gguf_stored(numbers.subspan(begin, std::min(part, numbers.size() - begin)), tensor.type);
    file.write(bytes);
    written += bytes.size();
  }
  file.write(std::string(gguf_aligned(written) - written, '\0'));
} catch (const InputError& error) {
  throw InputError(
      fmt::format("tensor {}, as {}: {}", tensor.name, name_of(tensor.type), error.what()));
}

}  // namespace

std::int64_t gguf_bytes(GgufType type, std::int64_t numbers) {
  if (type == GgufType::q8_0) return numbers / gguf_block * gguf_block_bytes;
  return numbers * (type == GgufType::f32 ? 4 : 2);
}

std::string gguf_stored(std::span<const float> numbers, GgufType type) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  std::string bytes(gguf_bytes(type, count), '\0');
  if (type == GgufType::f32) {
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
  } else if (type != GgufType::q8_0) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint16_t bits = type == GgufType::f16 ? finite_float16(numbers[i], "number")
                                                       : finite_bfloat16(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof(bits), &bits, sizeof(bits));
    }
  } else {
    for (std::int64_t block = 0; block < count / gguf_block; ++block)
      store_block(numbers.subspan(block * gguf_block).first<gguf_block>(),
                  bytes.data() + block * gguf_block_bytes);
  }
  return bytes;
}

void write_gguf(const std::string& path, const std::vector<GgufField>& fields,
                const std::vector<GgufTensor>& tensors,
                const std::function<Array(std::size_t tensor)>& values) {
  stream_file_atomically(path, [&](File& file) {
    file.write(header_of(fields, tensors));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Array array = values(i);
      require(array.shape() == tensors[i].shape, "write_gguf: {} has shape {}; expected {}",
              tensors[i].name, to_string(array.shape()), to_string(tensors[i].shape));
      write_numbers(file, tensors[i], array.values<float>());
    }
  });
}

}  // namespace tapestry
