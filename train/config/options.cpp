#include "train/config/options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace tapestry {
namespace {

template <class Number>
Number number(const std::string& name, const std::string& text, const char* expected) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  expect_input(error == std::errc() && stop == end && value == value, "--{} {}: expected {}{}",
               name, text, expected, error == std::errc::result_out_of_range ? " of 64 bits" : "");
  return value;
}

// Returns the text as a value of the type of `like`. Throws InputError if it is not one.
Value parse(const std::string& name, const std::string& text, const Value& like) {
  if (std::holds_alternative<std::int64_t>(like))
    return number<std::int64_t>(name, text, "an integer");
  if (std::holds_alternative<double>(like)) return number<double>(name, text, "a number");
  return text;
}

std::string shown(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text && !text->empty() ? *text : to_toml(value);
}

}  // namespace

Options::Options(const std::vector<KeyInfo>& known) {
  for (const KeyInfo& key : known) entries_.insert({key.name, {key, key.fallback}});
}

void Options::set(const std::string& name, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [known, entry] : entries_) names.push_back("--" + known);
  const auto found = entries_.find(name);
  expect_input(found != entries_.end(), "--{}: not an option for the task of this run; {}", name,
               names.empty() ? "leave out this option"
                             : fmt::format("expected {}{}", names.size() > 1 ? "one of " : "",
                                           fmt::join(names, ", ")));
  auto& [key, value, texts] = found->second;
  value = parse(name, text, key.fallback);
  texts.push_back(text);
  const std::string complaint = range_error(key, value);
  expect_input(complaint.empty(), "--{} {}: {}", name, text, complaint);
}

void Options::expect_all_used() const {
  for (const auto& [name, entry] : entries_)
    for (const Condition& condition : entry.key.limits.used_if) {
      const Value& given = entries_.at(condition.key).value;
      std::string used_with;
      for (const Value& value : condition.values)
        used_with +=
            fmt::format("{}--{} {}", used_with.empty() ? "" : " or ", condition.key, shown(value));
      expect_input(entry.texts.empty() || condition.holds(given),
                   "--{} {}: is not used with --{} {}, but with {}", name, shown(entry.value),
                   condition.key, shown(given), used_with);
    }
}

}  // namespace tapestry
