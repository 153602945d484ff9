#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapestry {

struct FileLine;

// A container of values that becomes an array: a vector, a set.
template <class T>
concept JsonRange = !std::convertible_to<T, std::string_view> && requires(const T& range) {
  typename T::value_type;
  range.begin();
  range.end();
};

// A JSON value: null, a boolean, a number, a string, an array or an object, whose members stay in
// the order in which they were added. Its interface is the part of nlohmann::ordered_json that is
// used here; only its source includes that library, whose templates take long to compile.
class JsonValue final {
 public:
  using array_t = std::vector<JsonValue>;
  using object_t = std::vector<std::pair<std::string, JsonValue>>;

  // Thrown for a text that is not JSON, and for a value of another type than the requested one.
  struct exception : std::runtime_error {
    using runtime_error::runtime_error;
  };
  struct parse_error : exception {
    parse_error(const std::string& what, std::size_t byte) : exception(what), byte(byte) {}
    std::size_t byte;  // the number of bytes read
  };
  struct too_deep : exception {
    using exception::exception;
  };

  enum class error_handler_t { strict, replace };  // how dump() treats bytes that are not UTF-8

  JsonValue() noexcept {}
  JsonValue(std::nullptr_t) noexcept {}
  JsonValue(bool value) noexcept : type_(Type::boolean), payload_{.boolean = value} {}
  template <std::integral T>
  JsonValue(T value) noexcept
      : type_(std::signed_integral<T> ? Type::integer : Type::natural),
        payload_{.integer = static_cast<std::int64_t>(value)} {}
  JsonValue(double value) noexcept
      : type_(Type::real), payload_{.real = value} {}  // dump() writes NaN and infinity as null
  JsonValue(std::string value);
  JsonValue(std::string_view value) : JsonValue(std::string(value)) {}
  JsonValue(const char* value) : JsonValue(std::string(value)) {}
  JsonValue(const void*) = delete;  // deleted: a pointer would convert to a boolean
  JsonValue(array_t value);
  JsonValue(object_t value);
  JsonValue(const std::map<std::string, std::string>& value);
  template <JsonRange Range>
  JsonValue(const Range& range) : JsonValue(array_t(range.begin(), range.end())) {}

  // Constructs an object if every value is an array of a string and another value, otherwise an
  // array.
  JsonValue(std::initializer_list<JsonValue> values);

  static JsonValue array() { return array_t(); }
  static JsonValue array(std::initializer_list<JsonValue> values);
  static JsonValue object() { return object_t(); }

  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept { swap(other); }
  JsonValue& operator=(JsonValue other) noexcept {
    swap(other);
    return *this;
  }
  ~JsonValue();

  // Reads a text. Throws parse_error if it is not JSON, too_deep above most_depth and exception
  // for a number that no double holds. The last of several members of one name counts.
  static JsonValue parse(std::string_view text);
  static JsonValue parse_or_null(std::string_view text);  // returns null instead of throwing
  static constexpr int most_depth = 500;

  // Passes each member of an object to `take` as soon as it is read, so that not all are held at
  // once; members of one name are all passed. Returns false if the text is another value than an
  // object. Throws as parse() does, but too_deep where a value is within more than `depth` arrays
  // and objects.
  using TakeMember = std::function<void(const std::string& name, const JsonValue& value)>;
  static bool parse_members(std::string_view text, int depth, const TakeMember& take);

  // Returns the text: on one line, or with each level indented by `indent` of the character `fill`.
  // `ascii` escapes all other characters. Throws exception for a string that is not UTF-8, if
  // strict.
  std::string dump(int indent = -1, char fill = ' ', bool ascii = false,
                   error_handler_t handler = error_handler_t::strict) const;

  bool is_null() const noexcept { return type_ == Type::null; }
  bool is_boolean() const noexcept { return type_ == Type::boolean; }
  bool is_number() const noexcept { return is_number_integer() || type_ == Type::real; }
  bool is_number_integer() const noexcept {
    return type_ == Type::integer || type_ == Type::natural;
  }
  bool is_number_unsigned() const noexcept {
    return type_ == Type::natural;
  }  // false for negative numbers
  bool is_string() const noexcept { return type_ == Type::string; }
  bool is_array() const noexcept { return type_ == Type::array; }
  bool is_object() const noexcept { return type_ == Type::object; }

  // Returns the value as a bool, number or std::string, an array of these as a vector or set, and
  // an object of them as a map. Numbers are converted. Throws exception for a value of another
  // type.
  template <class T>
  T get() const;
  // Returns an integer of 64 bits. Throws exception for other numbers and values.
  std::int64_t integer() const;

  // Returns the number of elements of an array or members of an object: 0 for null, 1 for other
  // values.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  // --- arrays ---

  const JsonValue* begin() const noexcept;  // equal to end() for other types
  const JsonValue* end() const noexcept;
  const JsonValue& operator[](std::size_t i) const { return at(i); }
  const JsonValue& at(std::size_t i) const;  // throws exception if there is no such element
  JsonValue& back();                         // throws exception unless there is an element
  void push_back(JsonValue value);           // appends to an array; null becomes an array

  // --- objects ---

  // Returns the members; none for other types.
  std::span<const std::pair<std::string, JsonValue>> items() const noexcept;
  // Returns end() if there is no such member.
  const JsonValue* find(std::string_view name) const noexcept;
  bool contains(std::string_view name) const noexcept { return find(name) != end(); }
  const JsonValue& operator[](std::string_view name) const { return at(name); }
  const JsonValue& at(std::string_view name) const;  // throws exception if there is no such member
  JsonValue& operator[](std::string_view name);  // adds a missing member; null becomes an object

  // Returns the member, or `otherwise` if there is none. Throws exception unless this is an object
  // and the member is of the type of `otherwise`, which for a JsonValue is any.
  JsonValue value(std::string_view name, const JsonValue& otherwise) const;
  std::int64_t value(std::string_view name, std::int64_t otherwise) const;
  std::string value(std::string_view name, const char* otherwise) const;

  // Adds the members of `object`, or replaces those of the same names; null becomes an object.
  // Throws exception if `object` is not an object, or if this is another value.
  void update(const JsonValue& object);
  JsonValue& sort_keys();  // sorts this object and all within it

  // Compare numbers by value, whatever their types, and objects whatever the order of their
  // members. Values other than numbers are not ordered.
  friend bool operator==(const JsonValue& a, const JsonValue& b) noexcept;
  friend std::partial_ordering operator<=>(const JsonValue& a, const JsonValue& b) noexcept;

 private:
  enum class Type : std::uint8_t { null, boolean, integer, natural, real, string, array, object };
  struct Object;

  void swap(JsonValue& other) const noexcept;
  const char* type_name() const noexcept;
  void expect(bool holds, int number, const char* what) const;
  void write(std::string& text, const struct JsonStyle& style, int level) const;

  union Payload {
    bool boolean;
    std::int64_t integer = 0;  // also holds the bits of an unsigned number
    double real;
    std::string* string;
    array_t* array;
    Object* object;
  };

  // Mutable, so that values can be moved out of an std::initializer_list, whose elements are const.
  mutable Type type_ = Type::null;
  mutable Payload payload_{};
};

// --- implementation of the templates ---

template <class T>
T JsonValue::get() const {
  if constexpr (std::same_as<T, bool>) {
    expect(is_boolean(), 302, "type must be boolean, but is");
    return payload_.boolean;
  } else if constexpr (std::integral<T> || std::floating_point<T>) {
    expect(is_number(), 302, "type must be number, but is");
    if (type_ == Type::real) return static_cast<T>(payload_.real);
    if (type_ == Type::integer) return static_cast<T>(payload_.integer);
    return static_cast<T>(static_cast<std::uint64_t>(payload_.integer));
  } else if constexpr (std::same_as<T, std::string>) {
    expect(is_string(), 302, "type must be string, but is");
    return *payload_.string;
  } else if constexpr (requires { typename T::mapped_type; }) {
    expect(is_object(), 302, "type must be object, but is");
    T members;
    for (const auto& [name, value] : items())
      members.emplace(name, value.template get<typename T::mapped_type>());
    return members;
  } else {
    expect(is_array(), 302, "type must be array, but is");
    T elements;
    for (const JsonValue& element : *this)
      elements.insert(elements.end(), element.template get<typename T::value_type>());
    return elements;
  }
}

// Returns how deep arrays and objects of a JSON text are nested: 0 for "1", 1 for "[1]", 2 for
// "[[1]]"; for a text that is not JSON, at least the depth that a parser reaches. JSON values are
// copied, compared and written recursively, so files are refused above max_json_depth.
int json_depth(std::string_view text);

inline constexpr int max_json_depth = 32;

// Returns whether an object in a JSON text has a key twice. A parser keeps only one of its values.
bool has_duplicate_keys(std::string_view text);

// Returns the value with its members sorted by name. Throws InputError with the file, and the line
// of a syntax error, for a text that is not JSON, is deeper than max_json_depth, or has a number
// that no double holds.
JsonValue parse_json(std::string_view text, const std::string& path);

// Returns the first 60 characters of a value for a message, on one line and in ASCII.
std::string brief(const JsonValue& json);

// Returns the object of a line, with its members sorted by name. Throws InputError with file and
// line for another value, a line of over 16 MiB, values nested more than max_json_depth deep, and a
// number that no double holds.
JsonValue json_object_of(const FileLine& line);

// Returns the names of the members, for a message: "\"text\", \"label\"", or "none".
std::string member_names(const JsonValue& object);

}  // namespace tapestry
