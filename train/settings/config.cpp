#include "train/settings/config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

#include "data/text/text.hpp"
#include "train/settings/toml.hpp"

namespace tapestry {
namespace {

const char* type_name(const Value& value) {
  constexpr const char* names[] = {"true or false", "an integer", "a number", "a string",
                                   "a list of integers"};
  return names[value.index()];
}

std::string describe_range(const Limits& limits, bool integer) {
  const auto show = [&](double bound) {
    return integer ? fmt::format("{:.0f}", bound) : fmt::format("{}", bound);
  };
  if (std::isinf(limits.high)) return "at least " + show(limits.low);
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

Override parse_override(const std::string& text, bool is_string) {
  const std::size_t equals = text.find('=');
  expect_input(equals != std::string::npos && equals > 0, "--set {}: expected key=value", text);
  const std::string value = text.substr(equals + 1);
  require_few_dots(text, "--set " + text.substr(0, std::min<std::size_t>(equals, 100)));
  try {
    toml::table table = toml::parse("value = " + value);
    if (!is_string || table.get("value")->is_string()) return {text.substr(0, equals), table};
  } catch (const toml::parse_error&) {
  }
  return {text.substr(0, equals), toml::table{{"value", value}}};
}

// A base's name and published result are its own.
bool is_inherited(const std::string& key) { return key != "name" && !key.starts_with("expected."); }

std::string name_of_override(const std::string& text) { return text.substr(0, text.find('=')); }

}  // namespace

std::string range_error(const KeyInfo& key, const Value& value) {
  const Limits& limits = key.limits;
  const auto outside = [&](double number) {
    return !(number >= limits.low && number <= limits.high);
  };
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    if (outside(static_cast<double>(*integer))) return "expected " + describe_range(limits, true);
  if (const auto* number = std::get_if<double>(&value))
    if (outside(*number)) return "expected " + describe_range(limits, false);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    for (std::int64_t item : *list)
      if (outside(static_cast<double>(item)))
        return "expected integers " + describe_range(limits, true);
  if (const auto* text = std::get_if<std::string>(&value))
    if (!limits.choices.empty() && std::ranges::find(limits.choices, *text) == limits.choices.end())
      return fmt::format("expected one of {}; did you mean \"{}\"?",
                         fmt::join(limits.choices, ", "), nearest(*text, limits.choices));
  return {};
}

void throw_unhandled(const KeyInfo& key) {
  throw std::logic_error(fmt::format("key {}: one of its values is not handled", key.name));
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const auto edits = [&](const std::string& other) {  // Levenshtein's distance
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = row[0]++;
      for (std::size_t j = 0; j < other.size(); ++j) {
        const std::size_t change = diagonal + (word[i] != other[j]);
        diagonal = row[j + 1];
        row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, change});
      }
    }
    return row.back();
  };
  return candidates.empty() ? "" : *std::ranges::min_element(candidates, {}, edits);
}

Config::Found Config::peek(const std::vector<ConfigText>& texts,
                           const std::vector<std::string>& overrides, const std::string& key) {
  Found found{.origin = texts.front().source};
  for (const ConfigText& text : texts | std::views::reverse) {
    const toml::table table = parse_toml(text.text, text.source);
    std::vector<Given> all;
    flatten(table, "", text.source, all);
    for (const Given& item : all)
      if (item.name == key && item.node->is_string())
        found = {item.node->as_string()->get(), item.origin};
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
    entries_[key.name] = {key, key.fallback, "default"};
  }
  names.emplace_back(base_key);

  const auto checked = [&](const Given& given) -> Entry {
    const auto found = entries_.find(given.name);
    if (found == entries_.end()) {
      const std::string last = given.name.substr(given.name.rfind('.') + 1);
      const auto elsewhere = std::ranges::find_if(
          names, [&](const std::string& name) { return name.substr(name.rfind('.') + 1) == last; });
      const std::string& meant = elsewhere != names.end() ? *elsewhere : nearest(given.name, names);
      throw InputError(fmt::format("{}: unknown key {}; did you mean {}?", given.origin,
                                   printable(given.name), meant));
    }
    const KeyInfo& key = found->second.key;
    const std::optional<Value> value = convert(*given.node, key.fallback);
    expect_input(value.has_value(), "{}: {} = {}: expected {}", given.origin, given.name,
                 show(*given.node), type_name(key.fallback));
    const std::string wrong = range_error(key, *value);
    expect_input(wrong.empty(), "{}: {} = {}: {}", given.origin, given.name, to_toml(*value),
                 wrong);
    return {key, *value, given.origin};
  };

  for (const ConfigText& text : texts | std::views::reverse) {
    const toml::table table = parse_toml(text.text, text.source);
    std::vector<Given> given;
    flatten(table, "", text.source, given);
    std::erase_if(given, [](const Given& item) { return item.name == base_key; });
    for (const Given& item : given) {
      const Entry entry = checked(item);
      if (&text == &texts.front() || is_inherited(item.name)) entries_[item.name] = entry;
    }
  }
  for (const std::string& override_text : overrides) {
    const std::string name = name_of_override(override_text);
    expect_input(name != base_key, "--set {}: a base can only stand in a file", override_text);
    const auto known = entries_.find(name);
    const bool is_string =
        known != entries_.end() && std::holds_alternative<std::string>(known->second.key.fallback);
    const Override parsed = parse_override(override_text, is_string);
    entries_[name] = checked({name, "--set", parsed.table.get("value")});
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

template <class Comment>
std::string Config::write(Comment comment) const {
  std::string text, section;
  for (const KeyInfo& key : keys_) {
    const std::size_t dot = key.name.find('.');
    const std::string own = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (own != section) text += fmt::format("\n[{}]\n", section = own);
    const Entry& found = entries_.at(key.name);
    const std::string line =
        fmt::format("{} = {}", key.name.substr(own.empty() ? 0 : dot + 1), to_toml(found.value));
    text += line + comment(found, line.size()) + "\n";
  }
  return text;
}

std::string Config::toml() const {
  return write([](const Entry&, std::size_t) { return std::string(); });
}

std::string Config::explain() const {
  return write([](const Entry& found, std::size_t width) {
    return fmt::format("{:{}}# {}: {}", "", width < 36 ? 36 - width : 1, found.origin,
                       found.key.help);
  });
}

std::vector<std::string> Config::differences(const Config& resumed) const {
  std::vector<std::string> differing;
  for (const KeyInfo& key : keys_) {
    const Value& mine = entries_.at(key.name).value;
    const auto other = resumed.entries_.find(key.name);
    if (key.limits.free_on_resume || other == resumed.entries_.end()) continue;
    if (mine != other->second.value)
      differing.push_back(
          fmt::format("{} ({}, now {})", key.name, to_toml(mine), to_toml(other->second.value)));
  }
  return differing;
}

}  // namespace tapestry
