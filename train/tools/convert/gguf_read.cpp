#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "autograd/check.hpp"
#include "autograd/float16.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/tools/convert/gguf_file.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using FieldType = GgufFieldType;

constexpr std::uint32_t oldest_version = 2;  // version 1 has other sizes
constexpr const char* alignment_field = "general.alignment";
constexpr std::uint64_t most_alignment = 1 << 16, max_header = 32 << 20;
constexpr std::size_t max_tensor_name = 63, max_axes = 4;  // limits of llama.cpp
constexpr std::uint64_t max_numbers = 1ull << 40;

// A reader of a header. Every length is compared with the number of remaining bytes.
class HeaderReader final {
 public:
  HeaderReader(std::ifstream& stream, const std::string& path, std::uint64_t file_bytes)
      : stream_(stream), path_(path), end_(std::min(file_bytes, max_header)) {
    cut_short_ = file_bytes <= max_header ? "the file is truncated"
                                          : "expected fields and tensors of at most 32 MiB";
  }

  std::uint64_t at() const { return at_; }

  template <class Number>
  Number number(const char* what) {
    Number read{};
    bytes(reinterpret_cast<char*>(&read), sizeof(read), what);
    return read;
  }

  std::string text(const char* what) {
    const std::uint64_t begin = at_;
    const auto length = number<std::uint64_t>(what);
    expect_room(length, 1, what);
    std::string read(length, '\0');
    bytes(read.data(), length, what);
    for (std::size_t offset = 0; offset < read.size();) {
      const int width = code_point_at(read, offset).bytes;
      if (width == 0) fail(begin, fmt::format("{} is not UTF-8", what));
      offset += width;
    }
    return read;
  }

  // Throws InputError if the file, or the largest header, is too small for `count` items of at
  // least `least_bytes` bytes.
  void expect_room(std::uint64_t count, std::uint64_t least_bytes, const char* what) const {
    if (count > (end_ - at_) / least_bytes)
      fail(at_, fmt::format("{}: {}, but only {} bytes are left: {}", what, count, end_ - at_,
                            cut_short_));
  }

  [[noreturn]] void fail(std::uint64_t at, const std::string& what) const {
    throw InputError(fmt::format("{}: byte {}: {}", path_, at, what));
  }

 private:
  void bytes(char* to, std::uint64_t count, const char* what) {
    if (count > end_ - at_) fail(at_, fmt::format("{} is missing: {}", what, cut_short_));
    stream_.read(to, static_cast<std::streamsize>(count));
    if (!stream_.good()) fail(at_, "cannot be read");
    at_ += count;
  }

  std::ifstream& stream_;
  const std::string& path_;
  std::uint64_t at_ = 0, end_;
  const char* cut_short_;
};

// The minimum size of a value of each type; a text has a length.
constexpr std::uint64_t value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};

// Returns the shortest decimal number that is nearer to this float32 than to any other.
double shortest(float number) {
  const std::string text = fmt::format("{}", number);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

// Returns an integer as unsigned if it is not negative, whatever type it was stored as.
Json whole_number(std::int64_t number) {
  return number < 0 ? Json(number) : Json(static_cast<std::uint64_t>(number));
}

FieldType read_type(HeaderReader& header, const std::string& field) {
  const std::uint64_t begin = header.at();
  const auto type = header.number<std::uint32_t>(field.c_str());
  if (type >= std::size(value_bytes))
    header.fail(begin, fmt::format("{}: type {}, expected 0 to 12", field, type));
  return static_cast<FieldType>(type);
}

Json read_value(HeaderReader& header, const std::string& field, FieldType type) {
  const std::uint64_t begin = header.at();
  const char* what = field.c_str();
  const auto finite = [&](double number) {
    if (!std::isfinite(number))
      header.fail(begin, fmt::format("{}: expected a finite number", field));
    return number;
  };
  switch (type) {
    case FieldType::uint8:
      return header.number<std::uint8_t>(what);
    case FieldType::int8:
      return whole_number(header.number<std::int8_t>(what));
    case FieldType::uint16:
      return header.number<std::uint16_t>(what);
    case FieldType::int16:
      return whole_number(header.number<std::int16_t>(what));
    case FieldType::uint32:
      return header.number<std::uint32_t>(what);
    case FieldType::int32:
      return whole_number(header.number<std::int32_t>(what));
    case FieldType::float32: {
      const auto number = header.number<float>(what);
      finite(number);
      return shortest(number);
    }
    case FieldType::flag: {
      const auto flag = header.number<std::uint8_t>(what);
      if (flag > 1) header.fail(begin, fmt::format("{}: {}, expected 0 or 1", field, flag));
      return flag == 1;
    }
    case FieldType::text:
      return header.text(what);
    case FieldType::uint64:
      return header.number<std::uint64_t>(what);
    case FieldType::int64:
      return whole_number(header.number<std::int64_t>(what));
    case FieldType::float64:
      return finite(header.number<double>(what));
    case FieldType::list:
      break;
  }
  throw_unhandled("GgufFieldType");
}

Json read_list(HeaderReader& header, const std::string& field) {
  const std::uint64_t begin = header.at();
  const FieldType type = read_type(header, field);
  if (type == FieldType::list)
    header.fail(
        begin,
        fmt::format("{}: expected a list of numbers, strings or booleans, found a list of lists; "
                    "convert the model again without this field",
                    field));
  const auto count = header.number<std::uint64_t>(field.c_str());
  header.expect_room(count, value_bytes[static_cast<std::size_t>(type)], field.c_str());
  constexpr std::uint64_t most = 1 << 22;  // more than any tokenizer has
  if (count > most)
    header.fail(begin,
                fmt::format("{}: the list has {} items, expected at most {}", field, count, most));
  Json::array_t list;
  list.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) list.push_back(read_value(header, field, type));
  return Json(std::move(list));
}

void read_field(HeaderReader& header, Json& fields) {
  const std::uint64_t begin = header.at();
  const std::string name = header.text("a field's name");
  if (name.empty()) header.fail(begin, "a field has no name");
  if (fields.contains(name)) header.fail(begin, fmt::format("field {} occurs twice", name));
  const FieldType type = read_type(header, name);
  fields[name] = type == FieldType::list ? read_list(header, name) : read_value(header, name, type);
}

std::uint64_t alignment_of(const Json& fields, const std::string& path) {
  const auto found = fields.find(alignment_field);
  if (found == fields.end()) return gguf_alignment;
  const std::uint64_t alignment = found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  expect_input(std::has_single_bit(alignment) && alignment >= 8 && alignment <= most_alignment,
               "{}: {}: expected a power of two from 8 to {}, found {}", path, alignment_field,
               most_alignment, brief(*found));
  return alignment;
}

// Reads a tensor's description. Throws InputError for an unsupported tensor, and unless its data
// begin where those of the previous tensor end.
GgufTensor read_description(HeaderReader& header, std::uint64_t expected_offset) {
  const std::uint64_t begin = header.at();
  GgufTensor tensor{.name = header.text("a tensor's name")};
  const auto fail = [&](const std::string& what) {
    header.fail(begin, fmt::format("tensor {}: {}", tensor.name, what));
  };
  if (tensor.name.empty()) header.fail(begin, "a tensor has no name");
  if (tensor.name.size() > max_tensor_name)
    header.fail(begin, fmt::format("the name of a tensor has {} bytes, expected at most {}",
                                   tensor.name.size(), max_tensor_name));
  const auto axes = header.number<std::uint32_t>("a tensor's shape");
  if (axes == 0 || axes > max_axes) fail(fmt::format("{} axes, expected 1 to {}", axes, max_axes));
  std::vector<std::int64_t> extents;
  std::uint64_t numbers = 1;
  for (std::uint32_t axis = 0; axis < axes; ++axis) {
    const auto extent = header.number<std::uint64_t>("a tensor's shape");
    if (extent == 0 || extent > max_numbers / numbers)
      fail(fmt::format("axis {} is {}, expected a shape of 1 to {} numbers", axis, extent,
                       max_numbers));
    numbers *= extent;
    extents.insert(extents.begin(), static_cast<std::int64_t>(extent));
  }
  tensor.shape = Shape(extents.data(), extents.data() + extents.size());
  tensor.type = header.number<GgufType>("a tensor's type");
  constexpr GgufType known[] = {GgufType::f32, GgufType::f16, GgufType::bf16, GgufType::q8_0};
  if (std::ranges::find(known, tensor.type) == std::end(known))
    fail(fmt::format("type {}, expected F32, F16, BF16 or Q8_0; convert the model to one of these",
                     name_of(tensor.type)));
  if (tensor.type == GgufType::q8_0 && extents.back() % gguf_block != 0)
    fail(fmt::format("its rows have {} numbers, expected whole Q8_0 blocks of {}", extents.back(),
                     gguf_block));
  const auto offset = header.number<std::uint64_t>("a tensor's offset");
  if (offset != expected_offset)
    fail(fmt::format("its data begin at byte {}, expected {}, where the previous tensor ends",
                     offset, expected_offset));
  return tensor;
}

void read_block(const char* from, std::span<float> numbers) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, gguf_scale_bytes);
  Q8Block block{.scale = float_of_float16(bits), .numbers = {}};
  std::memcpy(block.numbers, from + gguf_scale_bytes, sizeof(block.numbers));
  for (std::int64_t i = 0; i < gguf_block; ++i) numbers[i] = block[i];
}

}  // namespace

std::string name_of(GgufType type) {
  static const std::map<std::uint32_t, const char*> names = {
      {0, "F32"},     {1, "F16"},      {2, "Q4_0"},   {3, "Q4_1"},    {6, "Q5_0"},
      {7, "Q5_1"},    {8, "Q8_0"},     {9, "Q8_1"},   {10, "Q2_K"},   {11, "Q3_K"},
      {12, "Q4_K"},   {13, "Q5_K"},    {14, "Q6_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"},
      {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
      {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},    {26, "I32"},
      {27, "I64"},    {28, "F64"},     {29, "IQ1_M"}, {30, "BF16"},   {34, "TQ1_0"},
      {35, "TQ2_0"},  {39, "MXFP4"}};
  const auto number = static_cast<std::uint32_t>(type);
  const auto found = names.find(number);
  return found == names.end() ? fmt::format("number {}", number) : found->second;
}

void read_gguf_numbers(std::string_view bytes, GgufType type, std::span<float> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  require(std::ssize(bytes) == gguf_bytes(type, count),
          "read_gguf_numbers: {} bytes for {} numbers of {}; expected {}", bytes.size(), count,
          name_of(type), gguf_bytes(type, count));
  if (type == GgufType::f32) {
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
  } else if (type != GgufType::q8_0) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
      numbers[i] = type == GgufType::f16 ? float_of_float16(bits) : to_float(BFloat16(bits));
    }
  } else {
    for (std::int64_t block = 0; block < count / gguf_block; ++block)
      read_block(bytes.data() + block * gguf_block_bytes,
                 numbers.subspan(block * gguf_block, gguf_block));
  }
}

GgufReader::GgufReader(const std::string& path) try : path_(path) {
  require_file(path);
  stream_.open(path, std::ios::binary | std::ios::ate);
  expect_input(stream_.good(), "{}: cannot be opened: {}; check the path and its permissions", path,
               std::strerror(errno));
  const auto file_bytes = static_cast<std::uint64_t>(stream_.tellg());
  stream_.seekg(0);
  HeaderReader header(stream_, path_, file_bytes);
  for (const char expected : {'G', 'G', 'U', 'F'})
    expect_input(header.number<char>("\"GGUF\"") == expected,
                 "{}: byte 0: does not begin with \"GGUF\"; give a GGUF file", path);
  const auto version = header.number<std::uint32_t>("the version");
  expect_input(version >= oldest_version && version <= gguf_version,
               "{}: byte 4: version {}, expected {} or {}, little-endian; convert the model again",
               path, version, oldest_version, gguf_version);
  // Minimum sizes, with empty names and one axis.
  constexpr std::uint64_t least_field = 13, least_tensor = 32;
  const auto tensors = header.number<std::uint64_t>("the number of tensors");
  const auto fields = header.number<std::uint64_t>("the number of fields");
  header.expect_room(tensors, least_tensor, "tensors");
  header.expect_room(fields, least_field, "fields");
  for (std::uint64_t i = 0; i < fields; ++i) read_field(header, fields_);
  fields_.sort_keys();

  const std::uint64_t alignment = alignment_of(fields_, path);
  std::set<std::string_view> names;
  std::uint64_t offset = 0, data_bytes = 0;
  tensors_.reserve(tensors);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::uint64_t at = header.at();
    const GgufTensor& tensor = tensors_.emplace_back(read_description(header, offset));
    if (!names.insert(tensor.name).second)
      header.fail(at, fmt::format("tensor {} occurs twice", tensor.name));
    begins_.push_back(offset);
    data_bytes = offset + gguf_bytes(tensor.type, tensor.shape.elements());
    offset = gguf_aligned(data_bytes, alignment);
    expect_input(data_bytes <= file_bytes,
                 "{}: byte {}: tensor {} ends after the end of the file: the file is truncated",
                 path, at, tensor.name);
  }
  const std::uint64_t data_begin = gguf_aligned(header.at(), alignment);
  for (std::uint64_t& begin : begins_) begin += data_begin;
  expect_input(tensors_.empty() || data_begin + data_bytes <= file_bytes,
               "{}: the file has {} bytes, but its tensors end at byte {}: the file is truncated",
               path, file_bytes, data_begin + data_bytes);
  expect_input(
      file_bytes <= data_begin + offset,
      "{}: the file has {} bytes, expected at most {}, the end of its tensors and their padding",
      path, file_bytes, data_begin + offset);
} catch (const InputError& error) {
  const std::string what = printable(error.what());  // a name may contain any characters
  const bool advises = what.find("; ") != what.npos;
  throw InputError(what + (advises ? "" : "; use another copy of the file"));
}

Array GgufReader::read(std::size_t index) {
  const GgufTensor& tensor = tensors_.at(index);
  Array array(tensor.shape, DType::float32);
  std::string stored(gguf_bytes(tensor.type, array.size()), '\0');
  stream_.seekg(static_cast<std::streamoff>(begins_[index]));
  stream_.read(stored.data(), std::ssize(stored));
  expect_input(stream_.good(), "{}: cannot read tensor {}; use another copy of the file", path_,
               printable(tensor.name));
  read_gguf_numbers(stored, tensor.type, array.mutable_values<float>());
  return array;
}

}  // namespace tapestry
