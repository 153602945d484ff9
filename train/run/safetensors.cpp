#include "train/run/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include "autograd/check.hpp"
#include "autograd/float16.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/run/atomic_file.hpp"

namespace tapestry {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

using Json = JsonValue;

constexpr std::uint64_t max_header = 32 << 20;
constexpr std::uint64_t max_elements = 1ull << 40;
constexpr const char* metadata_name = "__metadata__";

// A type of tensors, with the size of an element in bytes. Types that an array can hold have a
// dtype; half-precision types are read as float32.
struct StoredType {
  const char* name;
  std::size_t bytes;
  std::optional<DType> dtype{};
};
constexpr StoredType stored_types[] = {{"F32", 4, DType::float32},
                                       {"F64", 8, DType::float64},
                                       {"I32", 4, DType::int32},
                                       {"F16", 2, DType::float32},
                                       {"BF16", 2, DType::float32},
                                       {"I64", 8},
                                       {"U64", 8},
                                       {"U32", 4},
                                       {"I16", 2},
                                       {"U16", 2},
                                       {"I8", 1},
                                       {"U8", 1},
                                       {"BOOL", 1},
                                       {"F8_E4M3", 1},
                                       {"F8_E5M2", 1}};
constexpr const char* readable_types = "F32, F64, F16, BF16 or I32";

const StoredType* find_type(std::string_view name) {
  const auto found = std::ranges::find(stored_types, name, &StoredType::name);
  return found == std::end(stored_types) ? nullptr : found;
}

// Returns the type as which an array is stored.
const StoredType& type_of(const Array& array, StoredFloats stored) {
  require(array.dtype() != DType::q8_0, "safetensors: {} cannot be stored", array);
  if (stored == StoredFloats::bfloat16 && array.dtype() != DType::int32) return *find_type("BF16");
  return *std::ranges::find(stored_types, array.dtype(), &StoredType::dtype);
}

std::string make_header(const Safetensors& file, StoredFloats stored) {
  Json::object_t header;
  if (!file.metadata.empty()) header.emplace_back(metadata_name, file.metadata);
  std::uint64_t offset = 0;
  for (const auto& [name, array] : file.tensors) {
    const std::vector<std::int64_t> shape(array.shape().begin(), array.shape().end());
    const StoredType& type = type_of(array, stored);
    const std::uint64_t bytes = array.size() * type.bytes;
    const Json entry = {
        {"dtype", type.name}, {"shape", shape}, {"data_offsets", {offset, offset + bytes}}};
    header.emplace_back(name, entry);
    offset += bytes;
  }
  std::string text = Json(std::move(header)).dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

using Entry = SafetensorsEntry;

Entry parse_entry(const std::string& path, const std::string& name, const Json& json) {
  try {
    const auto dtype = json.at("dtype").get<std::string>();
    const StoredType* type = find_type(dtype);
    expect_input(type != nullptr, "{}: tensor {}: dtype {}, expected {}; convert the file", path,
                 name, dtype, readable_types);
    Entry entry{name, type->name, {}, 0, 0};
    // Returns a list. Throws InputError for 1.5 and true, which the library converts.
    const auto natural_numbers = [&](const char* key) {
      const Json& list = json.at(key);
      expect_input(list.is_array() && std::ranges::all_of(list, &Json::is_number_unsigned),
                   "{}: tensor {}: {}: found {}, expected a list of non-negative integers", path,
                   name, key, brief(list));
      return list.get<std::vector<std::uint64_t>>();
    };
    std::uint64_t elements = 1;
    for (const std::uint64_t length : natural_numbers("shape")) {
      expect_input(entry.shape.rank() < Shape::max_rank,
                   "{}: tensor {}: the shape has more than {} axes", path, name, Shape::max_rank);
      expect_input(length <= max_elements && (length == 0 || elements <= max_elements / length),
                   "{}: tensor {}: the shape is too large, expected at most 2^40 elements", path,
                   name);
      entry.shape.push_back(static_cast<std::int64_t>(length));
      elements *= length;
    }
    const auto offsets = natural_numbers("data_offsets");
    expect_input(offsets.size() == 2, "{}: tensor {}: data_offsets: expected two numbers", path,
                 name);
    entry.begin = offsets[0];
    entry.end = offsets[1];
    expect_input(entry.begin <= entry.end && entry.end - entry.begin == elements * type->bytes,
                 "{}: tensor {}: data_offsets {} to {} differ from the size of {} of shape {}",
                 path, name, entry.begin, entry.end, dtype, to_string(entry.shape));
    return entry;
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: tensor {}: {}", path, name, error.what()));
  }
}

struct Header {
  std::vector<Entry> entries{};  // in file order
  std::map<std::string, std::string> metadata{};
};

// Adds a member of the header. Throws InputError for an invalid one.
void take(const std::string& path, const std::string& name, const Json& json, Header& header) {
  if (name != metadata_name) {
    header.entries.push_back(parse_entry(path, name, json));
    return;
  }
  try {
    header.metadata = json.get<std::map<std::string, std::string>>();
  } catch (const Json::exception&) {
    throw InputError(fmt::format("{}: __metadata__: expected a map of strings", path));
  }
}

// Returns the header. Stores each tensor's entry as soon as it is parsed, so that the JSON values
// are never held together. Throws InputError for a name that occurs twice, and for deep nesting.
Header parse_header(const std::string& path, const std::string& text) {
  Header header;
  std::vector<std::string> names;
  bool is_object = false;
  try {
    is_object = Json::parse_members(text, 3, [&](const std::string& name, const Json& value) {
      names.push_back(name);
      take(path, name, value, header);
    });
  } catch (const Json::too_deep&) {
    throw InputError(fmt::format("{}: header at byte 8: the lists are nested", path));
  } catch (const Json::parse_error& error) {
    throw InputError(
        fmt::format("{}: header at byte 8: is not JSON from its byte {} on", path, error.byte));
  } catch (const Json::exception&) {
    throw InputError(fmt::format("{}: header at byte 8: a number is too large for a double", path));
  }
  expect_input(is_object, "{}: header at byte 8: expected a JSON object", path);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  expect_input(twice == names.end(), "{}: tensor {} occurs twice in the header", path,
               twice == names.end() ? "" : *twice);
  return header;
}

// Throws InputError unless the tensors cover the data without overlaps and gaps.
void check_offsets(const std::string& path, std::vector<Entry> entries, std::uint64_t data_bytes) {
  std::ranges::stable_sort(entries, {},
                           [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    expect_input(entry.begin == expected, "{}: tensor {} starts at data byte {}, expected {} ({})",
                 path, entry.name, entry.begin, expected,
                 entry.begin < expected ? "tensors overlap" : "a hole");
    expected = entry.end;
  }
  expect_input(expected == data_bytes,
               "{}: the file has {} bytes of data, but the header states {}{}", path, data_bytes,
               expected, data_bytes < expected ? ": the file is truncated" : "");
}

std::vector<BFloat16> to_bfloat16(const Array& array) {
  const Array single = array.to(DType::float32);
  std::vector<BFloat16> rounded(single.size());
  for (std::int64_t i = 0; i < single.size(); ++i)
    store_rounded(single.values<float>()[i], rounded[i]);
  return rounded;
}

std::string_view bytes_of(const std::vector<BFloat16>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(BFloat16)};
}

float float_of_bfloat16(std::uint16_t bits) { return to_float(BFloat16(bits)); }

// Widens the 16-bit elements at `stored`, in the second half of the array, to its elements. Each is
// written after the 16-bit elements in its place were read.
void widen(const char* stored, Array& array, float (*value_of)(std::uint16_t)) {
  char* to = reinterpret_cast<char*>(array.mutable_raw());
  for (std::int64_t i = 0; i < array.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, stored + i * sizeof(bits), sizeof(bits));
    const float value = value_of(bits);
    std::memcpy(to + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

void write_safetensors(const WriteParts& write, const Safetensors& file, StoredFloats stored) {
  const std::string header = make_header(file, stored);
  const std::uint64_t length = header.size();
  std::vector<std::string_view> parts{{reinterpret_cast<const char*>(&length), sizeof(length)},
                                      header};
  std::deque<std::vector<BFloat16>> rounded;  // rounded tensors, to which the parts point
  for (const auto& [name, array] : file.tensors)
    if (type_of(array, stored).bytes == size_of(array.dtype()))
      parts.emplace_back(reinterpret_cast<const char*>(array.raw()), array.bytes());
    else
      parts.push_back(bytes_of(rounded.emplace_back(to_bfloat16(array))));
  write(parts);
}

void write_safetensors(const std::string& path, const Safetensors& file, StoredFloats stored) {
  write_safetensors([&](const auto& parts) { write_file_atomically(path, parts); }, file, stored);
}

SafetensorsReader::SafetensorsReader(const std::string& path) try : path_(path) {
  require_file(path);
  record_read(path);
  stream_.open(path, std::ios::binary | std::ios::ate);
  expect_input(stream_.good(), "{}: cannot be opened: {}; check the path and its permissions", path,
               std::strerror(errno));
  const auto file_bytes = static_cast<std::uint64_t>(stream_.tellg());
  stream_.seekg(0);
  std::uint64_t header_bytes = 0;
  stream_.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  expect_input(
      file_bytes >= 8 && header_bytes <= file_bytes - 8,
      "{}: is not a safetensors file, or truncated: header of {} bytes in a file of {} bytes", path,
      header_bytes, file_bytes);
  expect_input(header_bytes <= max_header,
               "{}: byte 0: the header has {} bytes, expected at most {}", path, header_bytes,
               max_header);
  std::string text(header_bytes, '\0');
  stream_.read(text.data(), static_cast<std::streamsize>(header_bytes));

  Header header = parse_header(path, text);
  data_begin_ = 8 + header_bytes;
  check_offsets(path, header.entries, file_bytes - data_begin_);
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
} catch (const InputError& error) {
  const std::string what = printable(error.what());  // a tensor's name may contain any characters
  const bool advises = what.find("; ") != what.npos;
  throw InputError(what + (advises ? "" : "; use another copy of the file"));
}

DType SafetensorsReader::dtype_of(const Entry& entry) const try {
  const StoredType& type = *find_type(entry.dtype);
  expect_input(type.dtype.has_value(), "{}: tensor {}: dtype {}, expected {}; convert the file",
               path_, entry.name, entry.dtype, readable_types);
  return *type.dtype;
} catch (const InputError& error) {
  throw InputError(printable(error.what()));
}

Array SafetensorsReader::read(const Entry& entry) {
  Array array(entry.shape, dtype_of(entry));
  read(entry, array);
  return array;
}

void SafetensorsReader::read(const Entry& entry, Array& array) try {
  require(array.shape() == entry.shape && array.dtype() == dtype_of(entry),
          "safetensors: tensor {} is {} {}, but the array is {} {}; expected equal dtype and shape",
          entry.name, to_string(dtype_of(entry)), to_string(entry.shape), to_string(array.dtype()),
          to_string(array.shape()));
  const StoredType& type = *find_type(entry.dtype);
  const std::size_t stored_bytes = entry.end - entry.begin;
  // 16-bit elements are read into the second half of the array, and widened from its beginning.
  char* stored = reinterpret_cast<char*>(array.mutable_raw()) + array.bytes() - stored_bytes;
  stream_.seekg(static_cast<std::streamoff>(data_begin_ + entry.begin));
  stream_.read(stored, static_cast<std::streamsize>(stored_bytes));
  expect_input(stream_.good(), "{}: cannot read tensor {}; use another copy of the file", path_,
               entry.name);
  if (stored_bytes == array.bytes()) return;
  widen(stored, array, type.name == std::string_view("F16") ? float_of_float16 : float_of_bfloat16);
} catch (const InputError& error) {
  throw InputError(printable(error.what()));
}

}  // namespace tapestry
