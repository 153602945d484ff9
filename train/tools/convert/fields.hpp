#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/json.hpp"

namespace tapestry {

// The fields of a JSON object that somebody else wrote. Each has to be asked for: one that nobody
// knows may change what a model computes, and is refused by name. Errors are InputError, which
// names file, field, what was found and what was expected.
class Fields final {
 public:
  // `at` stands before the names in messages: "rope_scaling.".
  Fields(const JsonValue& object, std::string path, std::string at = "");

  // Natural numbers from 1 on.
  std::int64_t count(const std::string& name);
  std::optional<std::int64_t> optional_count(const std::string& name);  // nothing where null, too

  std::optional<std::int64_t> optional_number(const std::string& name);  // from 0 on

  bool has(const std::string& name) const;

  // `otherwise` where it is missing.
  double number(const std::string& name, std::optional<double> otherwise = {});
  bool flag(const std::string& name, bool otherwise);
  std::string text(const std::string& name, const std::string& otherwise);

  // An object within, or null where it is missing or null.
  const JsonValue* object(const std::string& name);

  const JsonValue& list(const std::string& name);  // which is there

  // Where it is there, it must have one of these values; the first is the one to name.
  void expect(const std::string& name, std::initializer_list<JsonValue> allowed);

  // A list, where it is there and not null, of this value alone.
  void expect_each(const std::string& name, const JsonValue& value);

  void ignore(std::initializer_list<const char*> names);  // known to change nothing
  void expect_all_known() const;

  [[noreturn]] void fail(const std::string& name, const std::string& expected) const;

 private:
  const JsonValue* find(const std::string& name);

  const JsonValue& object_;
  std::string path_, at_;
  std::set<std::string> known_{};
};

}  // namespace tapestry
