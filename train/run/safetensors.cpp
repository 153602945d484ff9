#include "train/run/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/text/text.hpp"
#include "train/run/file.hpp"

namespace tapestry {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

using Json = nlohmann::ordered_json;
using HeaderJson = nlohmann::json;  // to read: it finds a key in less than linear time

constexpr std::uint64_t max_header = 32 << 20;
constexpr std::size_t max_reason = 200;  // the JSON library quotes all that it has read
constexpr std::uint64_t max_elements = 1ull << 40;
constexpr const char* metadata_name = "__metadata__";

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName dtype_names[] = {
    {DType::float32, "F32"}, {DType::float64, "F64"}, {DType::int32, "I32"}};

const char* name_of(DType dtype) {
  return std::ranges::find(dtype_names, dtype, &DTypeName::dtype)->name;
}

std::string make_header(const Safetensors& file) {
  Json::object_t header;  // appended to, for looking each name up first takes quadratic time
  if (!file.metadata.empty()) header.emplace_back(metadata_name, file.metadata);
  std::uint64_t offset = 0;
  for (const auto& [name, array] : file.tensors) {
    const std::vector<std::int64_t> shape(array.shape().begin(), array.shape().end());
    const Json entry = {{"dtype", name_of(array.dtype())},
                        {"shape", shape},
                        {"data_offsets", {offset, offset + array.bytes()}}};
    header.emplace_back(name, entry);
    offset += array.bytes();
  }
  std::string text = Json(std::move(header)).dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;
};

Entry parse_entry(const std::string& path, const std::string& name, const HeaderJson& json) {
  try {
    Entry entry{name, DType::float32, {}, 0, 0};
    const auto dtype = json.at("dtype").get<std::string>();
    const auto known = std::ranges::find(dtype_names, dtype, &DTypeName::name);
    expect_input(known != std::end(dtype_names),
                 "{}: tensor {}: dtype {}, expected F32, F64 or I32", path, name, dtype);
    entry.dtype = known->dtype;
    const auto natural_numbers = [&](const char* key) {  // the library would convert 1.5 and true
      const HeaderJson& list = json.at(key);
      expect_input(list.is_array() && std::ranges::all_of(list, &HeaderJson::is_number_unsigned),
                   "{}: tensor {}: {}: expected a list of natural numbers", path, name, key);
      return list.get<std::vector<std::uint64_t>>();
    };
    std::uint64_t elements = 1;
    for (const std::uint64_t length : natural_numbers("shape")) {
      expect_input(entry.shape.rank() < Shape::max_rank, "{}: tensor {}: a shape of over {} axes",
                   path, name, Shape::max_rank);
      expect_input(length <= max_elements && (length == 0 || elements <= max_elements / length),
                   "{}: tensor {}: too large a shape", path, name);
      entry.shape.push_back(static_cast<std::int64_t>(length));
      elements *= length;
    }
    const auto offsets = natural_numbers("data_offsets");
    expect_input(offsets.size() == 2, "{}: tensor {}: data_offsets: expected two numbers", path,
                 name);
    entry.begin = offsets[0];
    entry.end = offsets[1];
    expect_input(
        entry.begin <= entry.end && entry.end - entry.begin == elements * size_of(entry.dtype),
        "{}: tensor {}: bytes {} to {} for {} of shape {}", path, name, entry.begin, entry.end,
        dtype, to_string(entry.shape));
    return entry;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: tensor {}: {}", path, name, error.what()));
  }
}

struct Header {
  std::vector<Entry> entries{};  // in its order
  std::map<std::string, std::string> metadata{};
};

// Takes down what a name of the header stands for.
void take(const std::string& path, const std::string& name, const HeaderJson& json,
          Header& header) {
  if (name != metadata_name) {
    header.entries.push_back(parse_entry(path, name, json));
    return;
  }
  try {
    header.metadata = json.get<std::map<std::string, std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: __metadata__: expected a map of strings", path));
  }
}

// Takes each tensor down as soon as it is parsed, so that no more of the header is held. Refuses a
// name that stands twice, and deep nesting, which the JSON library would follow recursively.
Header parse_header(const std::string& path, const std::string& text) {
  Header header;
  std::vector<std::string> names;
  const auto callback = [&](int depth, HeaderJson::parse_event_t event, HeaderJson& parsed) {
    using Event = HeaderJson::parse_event_t;
    expect_input(depth <= 3, "{}: header at byte 8: lists within lists", path);
    if (event == Event::key && depth == 1) names.push_back(parsed.get<std::string>());
    const bool ends =
        event == Event::value || event == Event::object_end || event == Event::array_end;
    if (!ends || depth != 1 || names.empty()) return true;
    take(path, names.back(), parsed, header);
    return false;  // not to be kept
  };
  HeaderJson root;
  try {
    root = HeaderJson::parse(text, callback);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: header at byte 8: {}", path,
                                 std::string_view(error.what()).substr(0, max_reason)));
  }
  expect_input(root.is_object(), "{}: header at byte 8: expected a JSON object", path);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  expect_input(twice == names.end(), "{}: tensor {} stands twice in the header", path,
               twice == names.end() ? "" : *twice);
  return header;
}

// The tensors must cover the data exactly: no overlap, no hole, nothing after the last.
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
  expect_input(expected == data_bytes, "{}: {} bytes of data, the header speaks of {}{}", path,
               data_bytes, expected, data_bytes < expected ? ": the file is cut short" : "");
}

}  // namespace

const Array* Safetensors::find(const std::string& name) const {
  const auto entry = std::ranges::find(tensors, name, &std::pair<std::string, Array>::first);
  return entry == tensors.end() ? nullptr : &entry->second;
}

void write_safetensors(const std::string& path, const Safetensors& file) {
  const std::string header = make_header(file);
  const std::uint64_t length = header.size();
  std::vector<std::string_view> parts{{reinterpret_cast<const char*>(&length), sizeof(length)},
                                      header};
  for (const auto& [name, array] : file.tensors)
    parts.emplace_back(reinterpret_cast<const char*>(array.raw()), array.bytes());
  write_file_atomically(path, parts);
}

Safetensors read_safetensors(const std::string& path) try {
  require_file(path);
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  expect_input(stream.good(), "{}: cannot be opened: {}", path, std::strerror(errno));
  const auto file_bytes = static_cast<std::uint64_t>(stream.tellg());
  stream.seekg(0);
  std::uint64_t header_bytes = 0;
  stream.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  expect_input(file_bytes >= 8 && header_bytes <= file_bytes - 8,
               "{}: byte 0: a header of {} bytes in a file of {}: cut short, or not safetensors",
               path, header_bytes, file_bytes);
  expect_input(header_bytes <= max_header, "{}: byte 0: a header of {} bytes, expected at most {}",
               path, header_bytes, max_header);
  std::string text(header_bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(header_bytes));

  const Header header = parse_header(path, text);
  const std::vector<Entry>& entries = header.entries;
  Safetensors file{.tensors = {}, .metadata = header.metadata};
  const std::uint64_t data_begin = 8 + header_bytes;
  check_offsets(path, entries, file_bytes - data_begin);
  for (const Entry& entry : entries) {
    Array array(entry.shape, entry.dtype);
    stream.seekg(static_cast<std::streamoff>(data_begin + entry.begin));
    stream.read(reinterpret_cast<char*>(array.mutable_raw()),
                static_cast<std::streamsize>(array.bytes()));
    expect_input(stream.good(), "{}: cannot read tensor {}", path, entry.name);
    file.tensors.emplace_back(entry.name, array);
  }
  return file;
} catch (const InputError& error) {
  throw InputError(printable(error.what()));  // a tensor's name may hold anything
}

}  // namespace tapestry
