#include "train/tools/convert/fields.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/check.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"

namespace tapestry {

using Json = JsonValue;

namespace {

bool says_nothing(const Json& value) {
  return value.is_null() || value == false || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

}  // namespace

Fields::Fields(const Json& object, std::string path, std::string at)
    : object_(object), path_(std::move(path)), at_(std::move(at)) {
  expect_input(object.is_object(),
               "{}: expected a JSON object, found {}; use another copy of the file", path_,
               brief(object));
}

const Json* Fields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

void Fields::fail(const std::string& name, const std::string& expected) const {
  const auto found = object_.find(name);
  throw InputError(fmt::format("{}: {}{}: expected {}, found {}; use another file", path_, at_,
                               printable(name), expected,
                               found == object_.end() ? "nothing" : brief(*found)));
}

std::optional<std::int64_t> Fields::optional_count(const std::string& name, std::int64_t least) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const Json* found = find(name);
  if (!found || found->is_null()) return std::nullopt;
  if (!found->is_number_unsigned() || *found < least || *found > most)
    fail(name, fmt::format("a whole number from {} to 2^40", least));
  return found->get<std::int64_t>();
}

std::int64_t Fields::count(const std::string& name) {
  const std::optional<std::int64_t> found = optional_count(name);
  if (!found) fail(name, "a whole number from 1 to 2^40");
  return *found;
}

double Fields::number(const std::string& name, std::optional<double> otherwise) {
  const Json* found = find(name);
  if ((!found || found->is_null()) && otherwise) return *otherwise;
  if (!found || !found->is_number()) fail(name, "a number");
  return found->get<double>();
}

bool Fields::flag(const std::string& name, bool otherwise) {
  const Json* found = find(name);
  if (!found) return otherwise;
  if (found->is_null()) return false;
  if (!found->is_boolean()) fail(name, "true or false");
  return found->get<bool>();
}

std::string Fields::text(const std::string& name, const std::string& otherwise) {
  const Json* found = find(name);
  if (!found || found->is_null()) return otherwise;
  if (!found->is_string()) fail(name, "a string");
  return found->get<std::string>();
}

const Json* Fields::object(const std::string& name) {
  const Json* found = find(name);
  if (!found || found->is_null()) return nullptr;
  if (!found->is_object()) fail(name, "an object");
  return found;
}

const Json* Fields::optional_list(const std::string& name) {
  const Json* found = find(name);
  if (!found || found->is_null()) return nullptr;
  if (!found->is_array()) fail(name, "a list");
  return found;
}

const Json& Fields::list(const std::string& name) {
  const Json* found = optional_list(name);
  if (!found) fail(name, "a list");
  return *found;
}

void Fields::expect(const std::string& name, std::initializer_list<Json> allowed) {
  const Json* found = find(name);
  const auto meets = [&](const Json& value) {
    return value == *found || (value == false && found->is_null());
  };
  if (!found || std::ranges::any_of(allowed, meets)) return;
  std::vector<std::string> choices;
  for (const Json& each : allowed) choices.push_back(brief(each));
  const char* only = choices.size() == 1 ? ", the only supported value" : "";
  fail(name, fmt::format("{}{}", fmt::join(choices, " or "), only));
}

void Fields::ignore(std::initializer_list<const char*> names) {
  known_.insert(names.begin(), names.end());
}

void Fields::ignore_prefix(std::string_view prefix) {
  for (const auto& [name, value] : object_.items())
    if (name.starts_with(prefix)) known_.insert(name);
}

void Fields::expect_all_known(UnknownFields& unknown) const {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    const std::string field = at_ + name;
    expect_input(says_nothing(value) || std::ranges::count(unknown.to_ignore, field) > 0,
                 "{}: {} = {}: unknown field, which may change what the model computes; use a file "
                 "without this field, or import with --ignore {}",
                 path_, printable(field), brief(value), shell_word(field));
    unknown.ignored.push_back(field);
  }
}

}  // namespace tapestry
