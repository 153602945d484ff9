#include "train/config/config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>
#include <utility>

#include "data/text/text.hpp"
#include "train/config/toml.hpp"

namespace tapestry {
namespace {

const char* type_name(const Value& value) {
  constexpr const char* names[] = {"true or false", "an integer",         "a number",
                                   "a string",      "a list of integers", "a list of strings"};
  return names[value.index()];
}

std::string describe_range(const Limits& limits, bool integer) {
  const auto show = [&](double bound) {
    return integer ? fmt::format("{:.0f}", bound) : fmt::format("{}", bound);
  };
  if (std::isinf(limits.low) && std::isinf(limits.high)) return "a finite number";
  if (std::isinf(limits.high)) return "at least " + show(limits.low) + (integer ? "" : ", finite");
  if (std::isinf(limits.low)) return "at most " + show(limits.high);
  return fmt::format("between {} and {}", show(limits.low), show(limits.high));
}

struct Given {
  std::string name, origin;
  const toml::node* node;
};

// Every leaf of a table by its dotted name. An inline table is a section too.
void flatten(const toml::table& table, const std::string& prefix, const std::string& source,
             std::vector<Given>& given) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* section = node.as_table())
      flatten(*section, name + ".", source, given);
    else
      given.push_back({name, position(source, key.source()), &node});
  }
}

// "key=value" of --set, as a table {value = …}: TOML, or bare text for a string.
struct Override {
  std::string name;
  toml::table table;
};

// Whether the table's only value ends where the text does: no comment and no other line follow it.
bool is_whole(const toml::table& table, std::string_view text) {
  toml::source_position end{1, 1};
  for (const char c : text.substr(0, text.find_last_not_of(" \t") + 1)) {
    const bool goes_on = (c & 0xC0) == 0x80;  // of a character in UTF-8: columns count characters
    end = c == '\n' ? toml::source_position{end.line + 1, 1}
                    : toml::source_position{end.line, end.column + !goes_on};
  }
  return table.size() == 1 && table.begin()->second.source().end == end;
}

Override parse_override(const std::string& text, bool is_string) {
  const std::size_t equals = text.find('=');
  expect_input(equals != std::string::npos && equals > 0, "--set {}: expected key=value", text);
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  require_few_dots(text, "--set " + name.substr(0, 100));
  const std::string written = "value = " + value;
  try {
    toml::table table = toml::parse(written);
    const bool whole = is_whole(table, written);
    if (is_string ? whole && table.get("value")->is_string() : whole) return {name, table};
  } catch (const toml::parse_error&) {
  }
  return {name, toml::table{{"value", value}}};
}

// What a value that is not of the key's type should have been.
std::string expected_type(const KeyInfo& key, const toml::node& given) {
  const std::string text = given.value_or(std::string());
  const bool is_long = text.size() > 18 && text.find_first_not_of("+-0123456789") == text.npos;
  const bool is_integer = std::holds_alternative<std::int64_t>(key.fallback);
  return std::string(type_name(key.fallback)) + (is_integer && is_long ? " of 64 bits" : "");
}

// A base's name and published result are its own.
bool is_inherited(const std::string& key) { return key != "name" && !key.starts_with("expected."); }

std::string name_of_override(const std::string& text) { return text.substr(0, text.find('=')); }

std::string text_error(const Limits& limits, const std::string& text) {
  if (text.find('\0') != text.npos) return "expected no character U+0000";
  if (limits.choices.empty() || std::ranges::count(limits.choices, text) > 0) return {};
  return fmt::format("expected one of {}{}", fmt::join(limits.choices, ", "),
                     did_you_mean(text, limits.choices, "\""));
}

}  // namespace

std::string range_error(const KeyInfo& key, const Value& value) {
  const Limits& limits = key.limits;
  const auto outside = [&](double number) {
    return !(std::isfinite(number) && number >= limits.low && number <= limits.high);
  };
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    if (outside(static_cast<double>(*integer))) return "expected " + describe_range(limits, true);
  if (const auto* number = std::get_if<double>(&value))
    if (outside(*number)) return "expected " + describe_range(limits, false);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    for (std::int64_t item : *list)
      if (outside(static_cast<double>(item)))
        return "expected integers " + describe_range(limits, true);
  if (const auto* text = std::get_if<std::string>(&value)) return text_error(limits, *text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& text : *list)
      if (const std::string wrong = text_error(limits, text); !wrong.empty()) return wrong;
  return {};
}

void throw_unhandled(const KeyInfo& key) {
  throw std::logic_error(fmt::format("key {}: one of its values is not handled", key.name));
}

std::string one_of(const std::vector<Value>& values) {
  std::vector<std::string> names;
  for (const Value& value : values) names.push_back(to_toml(value));
  return fmt::format("{}", fmt::join(names, " or "));
}

namespace {

// Damerau's distance, in which no letters are changed twice ("optimal string alignment").
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> two_before, before(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({row[j - 1] + 1, before[j] + 1, before[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 100;  // of what is compared letter by letter
  if (word.empty() || word.size() > longest) return "";
  std::string best;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t edits =
        candidate.starts_with(word) && word.size() > 2 ? 1 : edits_between(word, candidate);
    if (edits < fewest && edits <= 1 + std::max(word.size(), candidate.size()) / 4) {
      fewest = edits;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates,
                         const std::string& quote) {
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? "" : fmt::format("; did you mean {0}{1}{0}?", quote, meant);
}

Config::Found Config::peek(const std::vector<ConfigText>& texts,
                           const std::vector<std::string>& overrides, const std::string& key) {
  Found found{.origin = texts.front().source};
  for (const ConfigText& text : texts | std::views::reverse) {
    const toml::table table = parse_toml(text.text, text.source);
    std::vector<Given> all;
    flatten(table, "", text.source, all);
    for (const Given& item : all) {
      if (item.name != key) continue;
      expect_input(item.node->is_string(), "{}: {} = {}: expected a string", item.origin, key,
                   show(*item.node));
      found = {item.node->as_string()->get(), item.origin};
    }
  }
  for (const std::string& given : overrides)
    if (name_of_override(given) == key)
      found = {parse_override(given, true).table["value"].value_or(std::string()), "--set"};
  return found;
}

Config::Config(const std::string& text, const std::string& source,
               const std::vector<std::string>& overrides, const std::vector<KeyInfo>& keys)
    : Config(with_bases({source, text}), overrides, keys) {}

Config::Config(const std::vector<ConfigText>& texts, const std::vector<std::string>& overrides,
               const std::vector<KeyInfo>& keys)
    : keys_(keys) {
  std::vector<std::string> names;
  for (const KeyInfo& key : keys_) {
    names.push_back(key.name);
    entries_[key.name] = {.key = key, .value = key.fallback, .origin = "default"};
  }
  names.emplace_back(base_key);

  const auto checked = [&](const Given& given) -> Entry {
    const auto found = entries_.find(given.name);
    if (found == entries_.end()) {
      const std::string last = given.name.substr(given.name.rfind('.') + 1);
      const auto elsewhere = std::ranges::find_if(
          names, [&](const std::string& name) { return name.substr(name.rfind('.') + 1) == last; });
      throw InputError(fmt::format("{}: unknown key {}{}", given.origin, printable(given.name),
                                   elsewhere != names.end()
                                       ? fmt::format("; did you mean {}?", *elsewhere)
                                       : did_you_mean(given.name, names)));
    }
    const KeyInfo& key = found->second.key;
    const std::optional<Value> value = convert(*given.node, key.fallback);
    expect_input(value.has_value(), "{}: {} = {}: expected {}", given.origin, given.name,
                 show(*given.node), expected_type(key, *given.node));
    const std::string wrong = range_error(key, *value);
    expect_input(wrong.empty(), "{}: {} = {}: {}", given.origin, given.name, to_toml(*value),
                 wrong);
    return {.key = key, .value = *value, .origin = given.origin};
  };

  int layer = 0;
  for (const ConfigText& text : texts | std::views::reverse) {
    ++layer;
    const toml::table table = parse_toml(text.text, text.source);
    std::vector<Given> given;
    flatten(table, "", text.source, given);
    std::erase_if(given, [](const Given& item) { return item.name == base_key; });
    for (const Given& item : given) {
      Entry entry = checked(item);
      entry.layer = layer;
      if (&text == &texts.front() || is_inherited(item.name)) entries_[item.name] = entry;
    }
  }
  ++layer;
  for (const std::string& override_text : overrides) {
    const std::string name = name_of_override(override_text);
    expect_input(name != base_key, "--set {}: a base can only stand in a file", override_text);
    const auto known = entries_.find(name);
    const bool is_string =
        known != entries_.end() && std::holds_alternative<std::string>(known->second.key.fallback);
    const Override parsed = parse_override(override_text, is_string);
    entries_[name] = checked({name, "--set", parsed.table.get("value")});
    entries_[name].layer = layer;
  }
  drop_unused_settings();
}

bool Condition::holds(const Value& value) const {
  return (std::ranges::count(values, value) > 0) != excludes;
}

std::string Condition::wish() const {
  return excludes ? fmt::format("give another {}", key)
                  : fmt::format("set {} = {}", key, one_of(values));
}

// The conditions of the key that do not hold.
std::vector<const Condition*> Config::unmet(const KeyInfo& key) const {
  std::vector<const Condition*> conditions;
  for (const Condition& condition : key.limits.used_if)
    if (!condition.holds(value(condition.key))) conditions.push_back(&condition);
  return conditions;
}

void Config::drop_unused_settings() {
  std::vector<std::string> unused;
  for (const KeyInfo& key : keys_) {
    const std::vector<const Condition*> conditions = unmet(key);
    if (conditions.empty()) continue;
    Entry& found = entries_.at(key.name);
    const Condition& first = *conditions.front();
    found.unused = fmt::format("is not used with {} = {}", first.key, to_toml(value(first.key)));
    unused.push_back(key.name);
    if (found.value == key.fallback) continue;
    for (const Condition* condition : conditions)
      if (entry(condition->key).layer <= found.layer)
        fail(key, fmt::format("is not used with {} = {}; leave it out, or {}", condition->key,
                              to_toml(value(condition->key)), condition->wish()));
    dropped_.push_back(
        fmt::format("{}: {} = {}: {}", found.origin, key.name, to_toml(found.value), found.unused));
  }
  for (const std::string& name : unused) {  // after all conditions were looked at
    Entry& found = entries_.at(name);
    found.value = found.key.fallback;
    found.origin = "default";
  }
}

const Config::Entry& Config::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  require(found != entries_.end(), "config: key {} is not declared by this task", name);
  return found->second;
}

void Config::fail(const KeyInfo& key, const std::string& message) const {
  const Entry& found = entry(key.name);
  throw InputError(
      fmt::format("{}: {} = {}: {}", found.origin, key.name, to_toml(found.value), message));
}

// `written` makes lines of an entry and of "key = value".
template <class Written>
std::string Config::write(Written written) const {
  std::string text, section;
  for (const KeyInfo& key : keys_) {
    const std::size_t dot = key.name.find('.');
    const std::string own = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (own != section) text += fmt::format("\n[{}]\n", section = own);
    const Entry& found = entries_.at(key.name);
    text += written(found, fmt::format("{} = {}", key.name.substr(own.empty() ? 0 : dot + 1),
                                       to_toml(found.value)));
  }
  return text;
}

std::string Config::toml(const std::vector<std::string>& beginnings) const {
  return write([&](const Entry& found, const std::string& line) {
    const bool is_meant = std::ranges::any_of(
        beginnings, [&](const std::string& text) { return found.key.name.starts_with(text); });
    return is_meant && found.unused.empty() ? line + "\n" : "";
  });
}

std::string Config::toml_with_origins() const {
  return write([](const Entry& found, const std::string& line) {
    if (!found.unused.empty()) return std::string();
    if (found.origin == "default") return line + "\n";
    return fmt::format("{:<35} # {}\n", line, printable(found.origin));
  });
}

std::string Config::explain() const {
  return write([](const Entry& found, const std::string& line) {
    if (found.unused.empty())
      return fmt::format("{:<35} # {}: {}\n", line, found.origin, found.key.help);
    return fmt::format("{:<35} # {}: {}; {}\n", "# " + line, found.origin, found.key.help,
                       found.unused);
  });
}

std::map<std::string, std::string> Config::settings() const {
  std::map<std::string, std::string> settings;
  for (const auto& [name, found] : entries_)
    if (found.unused.empty()) settings[name] = to_toml(found.value);
  return settings;
}

std::map<std::string, std::string> Config::settings_that_count() const {
  std::map<std::string, std::string> counting = settings();
  std::erase_if(counting, [&](const auto& setting) {
    return entry(setting.first).key.limits.does_not_affect_result;
  });
  return counting;
}

namespace {

bool may_change_on_resume(const KeyInfo& key) {
  return key.limits.may_change_on_resume || key.limits.does_not_affect_result;
}

}  // namespace

std::vector<std::string> Config::differences(const Config& resumed) const {
  std::vector<std::string> differing;
  for (const KeyInfo& key : keys_) {
    const Entry& mine = entries_.at(key.name);
    const auto other = resumed.entries_.find(key.name);
    if (may_change_on_resume(key) || other == resumed.entries_.end()) continue;
    const Entry& now = other->second;
    // Where it is idle, what makes it so is named instead, unless that may differ.
    const bool counts = (mine.unused.empty() && now.unused.empty()) ||
                        std::ranges::all_of(key.limits.used_if, [&](const Condition& condition) {
                          return may_change_on_resume(entry(condition.key).key);
                        });
    if (counts && mine.value != now.value)
      differing.push_back(
          fmt::format("{} ({}, now {})", key.name, to_toml(mine.value), to_toml(now.value)));
  }
  return differing;
}

}  // namespace tapestry
