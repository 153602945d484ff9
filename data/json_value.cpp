#include <algorithm>
#include <array>
#include <bit>

#include "autograd/check.hpp"
#include "data/json.hpp"

namespace tapestry {

// Members in order and, if there are many, a hash table of their indices.
struct JsonValue::Object {
  object_t members{};
  std::vector<std::uint32_t> slots{};  // a power of two: 1 + the index of a member, or 0: free

  static constexpr std::size_t most_without_slots = 16;

  Object() = default;
  explicit Object(object_t given) : members(std::move(given)) { index(); }

  void index() {
    slots.clear();
    if (members.size() <= most_without_slots) return;
    slots.resize(std::bit_ceil(3 * members.size()));
    for (std::size_t i = 0; i < members.size(); ++i) occupy(i);
  }
  void occupy(std::size_t place) {
    std::size_t slot = first_slot(members[place].first);
    while (slots[slot] != 0) slot = next(slot);
    slots[slot] = static_cast<std::uint32_t>(place + 1);
  }
  std::size_t first_slot(std::string_view name) const {
    return std::hash<std::string_view>()(name) & (slots.size() - 1);
  }
  std::size_t next(std::size_t slot) const { return (slot + 1) & (slots.size() - 1); }

  JsonValue* find(std::string_view name) {
    if (slots.empty()) {
      const auto found = std::ranges::find(members, name, &object_t::value_type::first);
      return found == members.end() ? nullptr : &found->second;
    }
    for (std::size_t slot = first_slot(name); slots[slot] != 0; slot = next(slot))
      if (auto& [other, value] = members[slots[slot] - 1]; other == name) return &value;
    return nullptr;
  }

  JsonValue& add(std::string_view name) {
    JsonValue& added = members.emplace_back(name, JsonValue()).second;
    if (slots.size() < 2 * members.size())
      index();
    else
      occupy(members.size() - 1);
    return added;
  }
};

JsonValue::JsonValue(std::string value)
    : type_(Type::string), payload_{.string = new std::string(std::move(value))} {}

JsonValue::JsonValue(array_t value)
    : type_(Type::array), payload_{.array = new array_t(std::move(value))} {}

JsonValue::JsonValue(object_t value)
    : type_(Type::object), payload_{.object = new Object(std::move(value))} {}

JsonValue::JsonValue(const std::map<std::string, std::string>& value)
    : JsonValue(object_t(value.begin(), value.end())) {}

JsonValue::JsonValue(std::initializer_list<JsonValue> values) {
  const bool are_members = std::ranges::all_of(values, [](const JsonValue& value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  if (!are_members) {
    array(values).swap(*this);
    return;
  }
  JsonValue object = JsonValue::object();
  for (const JsonValue& member : values)
    if (!object.contains(*member[0].payload_.string))
      member[1].swap(object[*member[0].payload_.string]);
  object.swap(*this);
}

JsonValue JsonValue::array(std::initializer_list<JsonValue> values) {
  array_t array(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values.begin()[i].swap(array[i]);
  return array;
}

JsonValue::JsonValue(const JsonValue& other) : payload_(other.payload_) {
  if (other.type_ == Type::string) payload_.string = new std::string(*other.payload_.string);
  if (other.type_ == Type::array) payload_.array = new array_t(*other.payload_.array);
  if (other.type_ == Type::object) payload_.object = new Object(*other.payload_.object);
  type_ = other.type_;
}

JsonValue::~JsonValue() {
  if (type_ == Type::string) delete payload_.string;
  if (type_ == Type::array) delete payload_.array;
  if (type_ == Type::object) delete payload_.object;
}

void JsonValue::swap(JsonValue& other) const noexcept {
  std::swap(type_, other.type_);
  std::swap(payload_, other.payload_);
}

// --- types ---

const char* JsonValue::type_name() const noexcept {
  constexpr std::array names{"null",   "boolean", "number", "number",
                             "number", "string",  "array",  "object"};
  return names[static_cast<std::size_t>(type_)];
}

// Throws exception with a message in the form of the JSON library unless `holds`.
void JsonValue::expect(bool holds, int number, const char* what) const {
  if (!holds)
    throw exception(fmt::format("[json.exception.type_error.{}] {} {}", number, what, type_name()));
}

std::int64_t JsonValue::integer() const {
  const bool is_int64 = type_ == Type::integer || (type_ == Type::natural && payload_.integer >= 0);
  expect(is_int64, 303, "the value must be an integer of 64 bits, but is");
  return payload_.integer;
}

std::size_t JsonValue::size() const noexcept {
  if (type_ == Type::array) return payload_.array->size();
  return type_ == Type::object ? payload_.object->members.size() : type_ == Type::null ? 0 : 1;
}

// --- arrays ---

const JsonValue* JsonValue::begin() const noexcept {
  return is_array() ? payload_.array->data() : nullptr;
}

const JsonValue* JsonValue::end() const noexcept {
  return is_array() ? payload_.array->data() + payload_.array->size() : nullptr;
}

const JsonValue& JsonValue::at(std::size_t i) const {
  expect(is_array(), 304, "cannot use at() with");
  if (i >= payload_.array->size())
    throw exception(
        fmt::format("[json.exception.out_of_range.401] array index {} is out of range", i));
  return (*payload_.array)[i];
}

JsonValue& JsonValue::back() {
  expect(is_array(), 304, "cannot use back() with");
  if (empty()) throw exception("[json.exception.out_of_range.401] back() of an empty array");
  return payload_.array->back();
}

void JsonValue::push_back(JsonValue value) {
  if (is_null()) *this = array();
  expect(is_array(), 308, "cannot use push_back() with");
  payload_.array->push_back(std::move(value));
}

// --- objects ---

std::span<const std::pair<std::string, JsonValue>> JsonValue::items() const noexcept {
  if (!is_object()) return {};
  return payload_.object->members;
}

const JsonValue* JsonValue::find(std::string_view name) const noexcept {
  return is_object() ? payload_.object->find(name) : end();
}

const JsonValue& JsonValue::at(std::string_view name) const {
  expect(is_object(), 304, "cannot use at() with");
  const JsonValue* found = payload_.object->find(name);
  if (!found)
    throw exception(fmt::format("[json.exception.out_of_range.403] key '{}' not found", name));
  return *found;
}

JsonValue& JsonValue::operator[](std::string_view name) {
  if (is_null()) *this = object();
  expect(is_object(), 305, "cannot use operator[] with a string argument with");
  JsonValue* found = payload_.object->find(name);
  return found ? *found : payload_.object->add(name);
}

JsonValue JsonValue::value(std::string_view name, const JsonValue& otherwise) const {
  expect(is_object(), 306, "cannot use value() with");
  const JsonValue* found = payload_.object->find(name);
  return found ? *found : otherwise;
}

std::int64_t JsonValue::value(std::string_view name, std::int64_t otherwise) const {
  return value(name, JsonValue(otherwise)).get<std::int64_t>();
}

std::string JsonValue::value(std::string_view name, const char* otherwise) const {
  return value(name, JsonValue(otherwise)).get<std::string>();
}

void JsonValue::update(const JsonValue& object) {
  object.expect(object.is_object(), 312, "cannot use update() with");
  for (const auto& [name, value] : object.items()) (*this)[name] = value;
}

JsonValue& JsonValue::sort_keys() {
  if (is_array())
    for (JsonValue& element : *payload_.array) element.sort_keys();
  if (!is_object()) return *this;
  for (auto& [name, value] : payload_.object->members) value.sort_keys();
  std::ranges::stable_sort(payload_.object->members, {}, &object_t::value_type::first);
  payload_.object->index();
  return *this;
}

// --- comparison ---

bool operator==(const JsonValue& a, const JsonValue& b) noexcept {
  if (a.is_number()) return (a <=> b) == 0;
  if (a.type_ != b.type_) return false;
  if (a.is_boolean()) return a.payload_.boolean == b.payload_.boolean;
  if (a.is_string()) return *a.payload_.string == *b.payload_.string;
  if (a.is_array()) return *a.payload_.array == *b.payload_.array;
  return a.size() == b.size() && std::ranges::all_of(a.items(), [&](const auto& member) {
           const JsonValue* other = b.find(member.first);
           return other && *other == member.second;
         });
}

std::partial_ordering operator<=>(const JsonValue& a, const JsonValue& b) noexcept {
  using Type = JsonValue::Type;
  if (!a.is_number() || !b.is_number()) return std::partial_ordering::unordered;
  if (a.type_ == Type::real || b.type_ == Type::real) return a.get<double>() <=> b.get<double>();
  const bool a_is_low = a.payload_.integer < 0 && a.type_ == Type::integer,
             b_is_low = b.payload_.integer < 0 && b.type_ == Type::integer;
  if (a_is_low || b_is_low)
    return a_is_low && b_is_low ? a.payload_.integer <=> b.payload_.integer : b_is_low <=> a_is_low;
  return a.get<std::uint64_t>() <=> b.get<std::uint64_t>();
}

}  // namespace tapestry
