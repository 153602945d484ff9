#include "train/tools/convert/gguf_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/text.hpp"
#include "train/run/atomic_file.hpp"

namespace tapestry {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

using Json = JsonValue;

constexpr std::string_view magic = "GGUF";
constexpr std::uint32_t written_version = 3, oldest_version = 2;  // they differ in big-endian files
constexpr const char* alignment_field = "general.alignment";
constexpr std::uint64_t usual_alignment = 32, most_alignment = 1 << 16;
constexpr std::uint64_t max_head = 32 << 20;
constexpr std::size_t max_tensor_name = 63, max_axes = 4;  // llama.cpp has no more
constexpr std::uint64_t max_numbers = 1ull << 40;

// The types of fields, by their numbers.
enum class FieldType : std::uint32_t {
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

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// --- writing ---

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void append(std::string& bytes, const std::string& text) {
  append(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

template <class Element>
void append(std::string& bytes, FieldType type, const std::vector<Element>& list) {
  append(bytes, FieldType::list);
  append(bytes, type);
  append(bytes, static_cast<std::uint64_t>(list.size()));
  for (const Element& element : list) append(bytes, element);
}

struct AppendValue {
  std::string& bytes;

  void operator()(bool value) const {
    append(bytes, FieldType::flag);
    append(bytes, static_cast<std::uint8_t>(value));
  }
  void operator()(std::uint32_t value) const {
    append(bytes, FieldType::uint32);
    append(bytes, value);
  }
  void operator()(float value) const {
    append(bytes, FieldType::float32);
    append(bytes, value);
  }
  void operator()(const std::string& value) const {
    append(bytes, FieldType::text);
    append(bytes, value);
  }
  void operator()(const std::vector<std::int32_t>& value) const {
    append(bytes, FieldType::int32, value);
  }
  void operator()(const std::vector<std::string>& value) const {
    append(bytes, FieldType::text, value);
  }
};

// Up to where the numbers begin.
std::string head_of(const std::vector<GgufField>& fields, const std::vector<GgufTensor>& tensors) {
  std::string head(magic);
  append(head, written_version);
  append(head, static_cast<std::uint64_t>(tensors.size()));
  append(head, static_cast<std::uint64_t>(fields.size()));
  for (const GgufField& field : fields) {
    append(head, field.name);
    std::visit(AppendValue{head}, field.value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    append(head, tensor.name);
    append(head, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis)
      append(head, static_cast<std::uint64_t>(tensor.shape[axis]));
    append(head, tensor.type);
    append(head, offset);
    offset += aligned(gguf_bytes(tensor.type, tensor.shape.elements()), usual_alignment);
  }
  head.resize(aligned(head.size(), usual_alignment), '\0');
  return head;
}

void write_numbers(File& file, const GgufTensor& tensor, std::span<const float> numbers) try {
  constexpr std::size_t part = std::size_t{1} << 20;  // whole blocks
  expect_input(std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); }),
               "holds numbers that are not finite");
  std::uint64_t written = 0;
  for (std::size_t begin = 0; begin < numbers.size(); begin += part) {
    const std::string bytes =
        gguf_stored(numbers.subspan(begin, std::min(part, numbers.size() - begin)), tensor.type);
    file.write(bytes);
    written += bytes.size();
  }
  file.write(std::string(aligned(written, usual_alignment) - written, '\0'));
} catch (const InputError& error) {
  throw InputError(
      fmt::format("tensor {}, as {}: {}", tensor.name, name_of(tensor.type), error.what()));
}

// --- reading ---

// Types that others store tensors in, to be named.
std::string type_name(std::uint32_t type) {
  static const std::map<std::uint32_t, const char*> names = {
      {0, "F32"},     {1, "F16"},      {2, "Q4_0"},   {3, "Q4_1"},    {6, "Q5_0"},
      {7, "Q5_1"},    {8, "Q8_0"},     {9, "Q8_1"},   {10, "Q2_K"},   {11, "Q3_K"},
      {12, "Q4_K"},   {13, "Q5_K"},    {14, "Q6_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"},
      {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
      {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},    {26, "I32"},
      {27, "I64"},    {28, "F64"},     {29, "IQ1_M"}, {30, "BF16"},   {34, "TQ1_0"},
      {35, "TQ2_0"},  {39, "MXFP4"}};
  const auto found = names.find(type);
  return found == names.end() ? fmt::format("number {}", type) : found->second;
}

// Takes the head of a file apart. Every length is held against what the file still has.
class HeadReader final {
 public:
  HeadReader(std::ifstream& stream, const std::string& path, std::uint64_t file_bytes)
      : stream_(stream), path_(path), end_(std::min(file_bytes, max_head)) {
    cut_short_ = file_bytes <= max_head ? "the file is cut short"
                                        : "expected fields and places of at most 32 MiB";
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

  // So many things of so many bytes at least.
  void expect_room(std::uint64_t count, std::uint64_t least_bytes, const char* what) const {
    if (count > (end_ - at_) / least_bytes)
      fail(at_, fmt::format("{}: {}, for which {} bytes have no room: {}", what, count, end_ - at_,
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

std::uint64_t least_bytes_of(FieldType type) {
  switch (type) {
    case FieldType::uint8:
    case FieldType::int8:
    case FieldType::flag:
      return 1;
    case FieldType::uint16:
    case FieldType::int16:
      return 2;
    case FieldType::uint32:
    case FieldType::int32:
    case FieldType::float32:
      return 4;
    case FieldType::text:  // its length
    case FieldType::uint64:
    case FieldType::int64:
    case FieldType::float64:
      return 8;
    case FieldType::list:
      break;
  }
  return 0;
}

// The shortest decimal number that is nearest to no other float32.
double shortest(float number) {
  const std::string text = fmt::format("{}", number);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

// A natural number is one whatever type it was stored as.
Json whole_number(std::int64_t number) {
  return number < 0 ? Json(number) : Json(static_cast<std::uint64_t>(number));
}

class FieldReader final {
 public:
  explicit FieldReader(HeadReader& head) : head_(head) {}

  // A field's name and value into `fields`.
  void read(Json& fields) {
    const std::uint64_t begin = head_.at();
    name_ = head_.text("a field's name");
    if (name_.empty()) head_.fail(begin, "a field without a name");
    if (fields.contains(name_)) head_.fail(begin, fmt::format("{} stands twice", name_));
    const FieldType type = read_type();
    fields[name_] = type == FieldType::list ? read_list() : read_value(type);
  }

 private:
  FieldType read_type() {
    const std::uint64_t begin = head_.at();
    const auto type = head_.number<std::uint32_t>(name_.c_str());
    if (type > static_cast<std::uint32_t>(FieldType::float64))
      head_.fail(begin, fmt::format("{}: type {}, expected 0 to 12", name_, type));
    return static_cast<FieldType>(type);
  }

  Json read_list() {
    const std::uint64_t begin = head_.at();
    const FieldType type = read_type();
    if (type == FieldType::list) head_.fail(begin, fmt::format("{}: lists within lists", name_));
    const auto count = head_.number<std::uint64_t>(name_.c_str());
    head_.expect_room(count, least_bytes_of(type), name_.c_str());
    constexpr std::uint64_t most = 1 << 22;  // more than any tokenizer has
    if (count > most)
      head_.fail(begin, fmt::format("{}: a list of {}, expected at most {}", name_, count, most));
    Json::array_t list;
    list.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) list.push_back(read_value(type));
    return Json(std::move(list));
  }

  template <class Number>
  Number number() {
    return head_.number<Number>(name_.c_str());
  }

  double finite(std::uint64_t begin, double number) const {
    if (!std::isfinite(number)) head_.fail(begin, fmt::format("{}: not a finite number", name_));
    return number;
  }

  bool flag() {
    const std::uint64_t begin = head_.at();
    const auto read = number<std::uint8_t>();
    if (read > 1) head_.fail(begin, fmt::format("{}: {}, expected 0 or 1", name_, read));
    return read == 1;
  }

  Json read_value(FieldType type) {
    const std::uint64_t begin = head_.at();
    switch (type) {
      case FieldType::uint8:
        return number<std::uint8_t>();
      case FieldType::int8:
        return whole_number(number<std::int8_t>());
      case FieldType::uint16:
        return number<std::uint16_t>();
      case FieldType::int16:
        return whole_number(number<std::int16_t>());
      case FieldType::uint32:
        return number<std::uint32_t>();
      case FieldType::int32:
        return whole_number(number<std::int32_t>());
      case FieldType::float32: {
        const auto read = number<float>();
        return finite(begin, std::isfinite(read) ? shortest(read) : read);
      }
      case FieldType::flag:
        return flag();
      case FieldType::text:
        return head_.text(name_.c_str());
      case FieldType::uint64:
        return number<std::uint64_t>();
      case FieldType::int64:
        return whole_number(number<std::int64_t>());
      case FieldType::float64:
        return finite(begin, number<double>());
      case FieldType::list:
        break;
    }
    throw_unhandled("FieldType");
  }

  HeadReader& head_;
  std::string name_;
};

std::uint64_t alignment_of(const Json& fields, const std::string& path) {
  const auto found = fields.find(alignment_field);
  if (found == fields.end()) return usual_alignment;
  const std::uint64_t alignment = found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  expect_input(std::has_single_bit(alignment) && alignment >= 8 && alignment <= most_alignment,
               "{}: {}: expected a power of two from 8 to {}, found {}", path, alignment_field,
               most_alignment, brief(*found));
  return alignment;
}

// A tensor's description; its place is compared with the one that follows from those before it.
GgufTensor read_description(HeadReader& head, std::uint64_t expected_offset) {
  const std::uint64_t begin = head.at();
  GgufTensor tensor{.name = head.text("a tensor's name")};
  const auto fail = [&](const std::string& what) {
    head.fail(begin, fmt::format("tensor {}: {}", tensor.name, what));
  };
  if (tensor.name.empty()) head.fail(begin, "a tensor without a name");
  if (tensor.name.size() > max_tensor_name)
    head.fail(begin, fmt::format("a tensor's name of {} bytes, expected at most {}",
                                 tensor.name.size(), max_tensor_name));
  const auto axes = head.number<std::uint32_t>("a tensor's shape");
  if (axes == 0 || axes > max_axes) fail(fmt::format("{} axes, expected 1 to {}", axes, max_axes));
  std::vector<std::int64_t> extents;
  std::uint64_t numbers = 1;
  for (std::uint32_t axis = 0; axis < axes; ++axis) {
    const auto extent = head.number<std::uint64_t>("a tensor's shape");
    if (extent == 0 || extent > max_numbers / numbers)
      fail(fmt::format("axis {} of {}: too small or too large", axis, extent));
    numbers *= extent;
    extents.insert(extents.begin(), static_cast<std::int64_t>(extent));
  }
  tensor.shape = Shape(extents.data(), extents.data() + extents.size());
  const auto type = head.number<std::uint32_t>("a tensor's type");
  tensor.type = static_cast<GgufType>(type);
  if (tensor.type != GgufType::f32 && tensor.type != GgufType::f16 && tensor.type != GgufType::q8_0)
    fail(fmt::format("of type {}; expected F32, F16 or Q8_0: convert the model to one of these",
                     type_name(type)));
  if (tensor.type == GgufType::q8_0 && extents.back() % gguf_block != 0)
    fail(fmt::format("Q8_0 with rows of {}, expected whole blocks of {}", extents.back(),
                     gguf_block));
  const auto offset = head.number<std::uint64_t>("a tensor's place");
  if (offset != expected_offset)
    fail(fmt::format("at byte {} of the numbers, expected {}, where the one before it ends", offset,
                     expected_offset));
  return tensor;
}

}  // namespace

void write_gguf(const std::string& path, const std::vector<GgufField>& fields,
                const std::vector<GgufTensor>& tensors,
                const std::function<Array(std::size_t tensor)>& values) {
  stream_file_atomically(path, [&](File& file) {
    file.write(head_of(fields, tensors));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Array array = values(i);
      require(array.shape() == tensors[i].shape, "write_gguf: {} {} for {}", tensors[i].name,
              to_string(array.shape()), to_string(tensors[i].shape));
      write_numbers(file, tensors[i], array.values<float>());
    }
  });
}

GgufReader::~GgufReader() = default;

GgufReader::GgufReader(const std::string& path) try
    : path_(path), fields_(std::make_unique<Json>(Json::object())) {
  require_file(path);
  stream_.open(path, std::ios::binary | std::ios::ate);
  expect_input(stream_.good(), "{}: cannot be opened: {}", path, std::strerror(errno));
  const auto file_bytes = static_cast<std::uint64_t>(stream_.tellg());
  stream_.seekg(0);
  HeadReader head(stream_, path_, file_bytes);
  for (const char expected : magic)
    expect_input(head.number<char>("\"GGUF\"") == expected,
                 "{}: byte 0: does not begin with \"GGUF\": not a GGUF file", path);
  const auto version = head.number<std::uint32_t>("the version");
  expect_input(version >= oldest_version && version <= written_version,
               "{}: byte 4: version {}, expected {} or {}, little-endian; convert the model again",
               path, version, oldest_version, written_version);
  constexpr std::uint64_t least_field = 13, least_tensor = 32;  // with names of no and one axis
  const auto tensors = head.number<std::uint64_t>("the number of tensors");
  const auto fields = head.number<std::uint64_t>("the number of fields");
  head.expect_room(tensors, least_tensor, "tensors");
  head.expect_room(fields, least_field, "fields");
  FieldReader reader(head);
  for (std::uint64_t i = 0; i < fields; ++i) reader.read(*fields_);
  fields_->sort_keys();

  const std::uint64_t alignment = alignment_of(*fields_, path);
  std::set<std::string_view> names;
  std::uint64_t offset = 0, data_bytes = 0;
  tensors_.reserve(tensors);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::uint64_t at = head.at();
    const GgufTensor& tensor = tensors_.emplace_back(read_description(head, offset));
    if (!names.insert(tensor.name).second)
      head.fail(at, fmt::format("tensor {} stands twice", tensor.name));
    begins_.push_back(offset);
    data_bytes = offset + gguf_bytes(tensor.type, tensor.shape.elements());
    offset = aligned(data_bytes, alignment);
    expect_input(data_bytes <= file_bytes,
                 "{}: byte {}: tensor {} is larger than the file: the file is cut short", path, at,
                 tensor.name);
  }
  const std::uint64_t data_begin = aligned(head.at(), alignment);
  for (std::uint64_t& begin : begins_) begin += data_begin;
  expect_input(tensors_.empty() || data_begin + data_bytes <= file_bytes,
               "{}: {} bytes, its tensors go on up to byte {}: the file is cut short", path,
               file_bytes, data_begin + data_bytes);
  expect_input(file_bytes <= data_begin + offset, "{}: {} bytes, its tensors end at byte {}", path,
               file_bytes, data_begin + offset);
} catch (const InputError& error) {
  throw InputError(printable(error.what()));  // a name may hold anything
}

Array GgufReader::read(std::size_t index) {
  const GgufTensor& tensor = tensors_.at(index);
  Array array(tensor.shape, DType::float32);
  std::string stored(gguf_bytes(tensor.type, array.size()), '\0');
  stream_.seekg(static_cast<std::streamoff>(begins_[index]));
  stream_.read(stored.data(), std::ssize(stored));
  expect_input(stream_.good(), "{}: cannot read tensor {}", path_, printable(tensor.name));
  read_gguf_numbers(stored, tensor.type, array.mutable_values<float>());
  return array;
}

}  // namespace tapestry
