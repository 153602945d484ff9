#include "train/settings/config.hpp"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "data/text/text.hpp"

namespace tapestry {
namespace {

const char* type_name(const Value& value) {
  constexpr const char* names[] = {"true or false", "an integer", "a number", "a string",
                                   "a list of integers"};
  return names[value.index()];
}

std::string position(const std::string& source, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", source, region.begin.line, region.begin.column);
}

toml::table parse_toml(const std::string& text, const std::string& source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}: {}", position(source, error.source()), error.description()));
  }
}

// A number as TOML that reads back as the same double, and as a float.
std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// The node as the type of `like`; nothing when it is of another type. Integers serve as numbers.
std::optional<Value> convert(const toml::node& node, const Value& like) {
  if (std::holds_alternative<bool>(like)) {
    if (node.is_boolean()) return Value(node.as_boolean()->get());
  } else if (std::holds_alternative<std::int64_t>(like)) {
    if (node.is_integer()) return Value(node.as_integer()->get());
  } else if (std::holds_alternative<double>(like)) {
    if (node.is_floating_point()) return Value(node.as_floating_point()->get());
    if (node.is_integer()) return Value(static_cast<double>(node.as_integer()->get()));
  } else if (std::holds_alternative<std::string>(like)) {
    if (node.is_string()) return Value(node.as_string()->get());
  } else if (const toml::array* list = node.as_array()) {
    std::vector<std::int64_t> values;
    for (const toml::node& item : *list) {
      if (!item.is_integer()) return std::nullopt;
      values.push_back(item.as_integer()->get());
    }
    return Value(values);
  }
  return std::nullopt;
}

std::string describe_range(const Limits& limits, bool integer) {
  const auto show = [&](double bound) {
    return integer ? fmt::format("{:.0f}", bound) : fmt::format("{}", bound);
  };
  if (std::isinf(limits.high)) return "at least " + show(limits.low);
  if (std::isinf(limits.low)) return "at most " + show(limits.high);
  return fmt::format("between {} and {}", show(limits.low), show(limits.high));
}

// A value of the wrong type, on one line.
std::string show(const toml::node& node) {
  for (const Value& like : {Value(false), Value(std::int64_t{}), Value(0.0), Value(std::string())})
    if (const std::optional<Value> value = convert(node, like)) return to_toml(*value);
  if (node.is_array()) return "[…]";
  std::ostringstream shown;
  shown << toml::toml_formatter(node);
  return shown.str();
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
  try {
    toml::table table = toml::parse("value = " + value);
    if (!is_string || table.get("value")->is_string()) return {text.substr(0, equals), table};
  } catch (const toml::parse_error&) {
  }
  return {text.substr(0, equals), toml::table{{"value", value}}};
}

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

std::string to_toml(const Value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, bool>) return held ? "true" : "false";
        if constexpr (std::is_same_v<T, std::int64_t>) return std::to_string(held);
        if constexpr (std::is_same_v<T, double>) return number(held);
        if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
          return fmt::format("[{}]", fmt::join(held, ", "));
        if constexpr (std::is_same_v<T, std::string>) {
          std::ostringstream quoted;  // always one line: "a\nb"
          const toml::value<std::string> node(held);
          quoted << toml::toml_formatter(node, toml::format_flags::allow_unicode_strings);
          return quoted.str();
        }
      },
      value);
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

std::string Config::peek(const std::string& text, const std::string& source,
                         const std::vector<std::string>& overrides, const std::string& key) {
  const toml::table table = parse_toml(text, source);
  std::string found = table.at_path(key).value_or(std::string());
  for (const std::string& given : overrides)
    if (name_of_override(given) == key)
      found = parse_override(given, true).table["value"].value_or(std::string());
  return found;
}

Config::Config(const std::string& text, const std::string& source,
               const std::vector<std::string>& overrides, const std::vector<KeyInfo>& keys)
    : keys_(keys) {
  std::vector<std::string> names;
  for (const KeyInfo& key : keys_) {
    names.push_back(key.name);
    entries_[key.name] = {key, key.fallback, "default"};
  }

  const auto accept = [&](const Given& given) {
    const auto found = entries_.find(given.name);
    if (found == entries_.end()) {
      const std::string last = given.name.substr(given.name.rfind('.') + 1);
      const auto elsewhere = std::ranges::find_if(
          names, [&](const std::string& name) { return name.substr(name.rfind('.') + 1) == last; });
      const std::string& meant = elsewhere != names.end() ? *elsewhere : nearest(given.name, names);
      throw InputError(fmt::format("{}: unknown key {}; did you mean {}?", given.origin,
                                   printable(given.name), meant));
    }
    Entry& entry = found->second;
    const std::optional<Value> value = convert(*given.node, entry.key.fallback);
    expect_input(value.has_value(), "{}: {} = {}: expected {}", given.origin, given.name,
                 show(*given.node), type_name(entry.key.fallback));
    const std::string wrong = range_error(entry.key, *value);
    expect_input(wrong.empty(), "{}: {} = {}: {}", given.origin, given.name, to_toml(*value),
                 wrong);
    entry.value = *value;
    entry.origin = given.origin;
  };

  const toml::table table = parse_toml(text, source);
  std::vector<Given> given;
  flatten(table, "", source, given);
  for (const Given& item : given) accept(item);
  for (const std::string& override_text : overrides) {
    const auto known = entries_.find(name_of_override(override_text));
    const bool is_string =
        known != entries_.end() && std::holds_alternative<std::string>(known->second.key.fallback);
    const Override parsed = parse_override(override_text, is_string);
    accept({parsed.name, "--set", parsed.table.get("value")});
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
