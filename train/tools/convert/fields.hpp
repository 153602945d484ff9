#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/json.hpp"

namespace tapestry {

// Unknown fields of the files of a model.
struct UnknownFields {
  std::vector<std::string> to_ignore{};  // names that the user allows: "rope_scaling.beta"
  std::vector<std::string> ignored{};    // the names of fields that were ignored
};

// The fields of a JSON object that another program wrote. All fields must be read: an unread field
// that has a value is an error that names it, because it may change what the model computes. All
// functions throw InputError that names the file, the field, its value and what was expected.
class Fields final {
 public:
  // `at` precedes the names in messages: "rope_scaling.".
  Fields(const JsonValue& object, std::string path, std::string at = "");

  // Return a whole number from `least` to 2^40; count() from 1. If the field is missing or null,
  // optional_count() returns nothing, and count() throws.
  std::int64_t count(const std::string& name);
  std::optional<std::int64_t> optional_count(const std::string& name, std::int64_t least = 1);

  // Return the value of a field, or `otherwise` if it is missing; without `otherwise` a missing
  // field is an error. Null counts as missing, but as false for a flag, as in Python.
  double number(const std::string& name, std::optional<double> otherwise = {});
  bool flag(const std::string& name, bool otherwise);
  std::string text(const std::string& name, const std::string& otherwise);

  // Return null if the field is missing or null; list() throws then.
  const JsonValue* object(const std::string& name);
  const JsonValue* optional_list(const std::string& name);
  const JsonValue& list(const std::string& name);

  // Throws InputError if the field exists and has none of these values. Null counts as false.
  void expect(const std::string& name, std::initializer_list<JsonValue> allowed);

  // Marks fields that do not change the model as read.
  void ignore(std::initializer_list<const char*> names);
  void ignore_prefix(std::string_view prefix);
  // Adds the unread fields that are null, false or empty, and those of `to_ignore`, to `ignored`.
  // Throws InputError for the first other unread field.
  void expect_all_known(UnknownFields& unknown) const;

  // Throws InputError that says what was expected of the field, and what was found.
  [[noreturn]] void fail(const std::string& name, const std::string& expected) const;

 private:
  const JsonValue* find(const std::string& name);

  const JsonValue& object_;
  std::string path_, at_;
  std::set<std::string> known_{};
};

}  // namespace tapestry
