#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/config_document.hpp"

namespace tapestry {
namespace {

// Returns a number as TOML that is read back as the same double, and not as an integer.
std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// Returns "source:line:column".
std::string position(const std::string& source, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", source, region.begin.line, region.begin.column);
}

// Returns the number of dots of a line that may be in a key: outside of "strings" and of a comment,
// or all of them if the line has other kinds of strings, or escapes.
std::ptrdiff_t dots_of_keys(std::string_view line) {
  if (line.find_first_of("'\\") != line.npos || line.find("\"\"\"") != line.npos)
    return std::ranges::count(line, '.');
  std::ptrdiff_t dots = 0;
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '#' && !is_quoted) break;
    if (c == '"') is_quoted = !is_quoted;
    dots += c == '.' && !is_quoted;
  }
  return dots;
}

// Throws InputError if a text has so many dots that its keys may be nested too deeply for the TOML
// library, which is recursive.
void require_few_dots(std::string_view text, const std::string& source) {
  constexpr std::ptrdiff_t most = 1000;
  std::ptrdiff_t dots = 0;
  for (const std::string_view line : split(text, '\n')) dots += dots_of_keys(line);
  expect_input(dots <= most, "{}: more than {} dots; expected fewer", source, most);
}

// Returns the list if all of its items are a T.
template <class T>
std::optional<Value> list_of(const toml::array& list) {
  std::vector<T> values;
  for (const toml::node& item : list) {
    if (!item.is<T>()) return std::nullopt;
    values.push_back(item.as<T>()->get());
  }
  return Value(values);
}

// Returns the value of a node; nothing if no key has values of its type.
std::optional<Value> value_of(const toml::node& node) {
  if (node.is_boolean()) return Value(node.as_boolean()->get());
  if (node.is_integer()) return Value(node.as_integer()->get());
  if (node.is_floating_point()) return Value(node.as_floating_point()->get());
  if (node.is_string()) return Value(node.as_string()->get());
  if (!node.is_array()) return std::nullopt;
  const std::optional<Value> texts = list_of<std::string>(*node.as_array());
  return texts ? texts : list_of<std::int64_t>(*node.as_array());
}

TomlSetting setting_of(const std::string& name, const std::string& origin, const toml::node& node) {
  TomlSetting setting{.name = name, .origin = origin, .value = value_of(node)};
  if (setting.value) return setting;
  std::ostringstream text;
  text << toml::toml_formatter(node);
  setting.other_type = node.is_array() ? "[…]" : node.is_table() ? "{…}" : text.str();
  return setting;
}

// Adds every leaf of a table by its dotted name. An inline table is treated as a section.
void add_settings(const toml::table& table, const std::string& prefix, const std::string& source,
                  std::vector<TomlSetting>& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const toml::table* section = node.as_table();
    if (section && name != base_key)
      add_settings(*section, name + ".", source, settings);
    else
      settings.push_back(setting_of(name, position(source, key.source()), node));
  }
}

// Returns whether the table's only value ends at the end of the text: no comment and no other line
// follow it.
bool is_whole(const toml::table& table, std::string_view text) {
  toml::source_position end{1, 1};
  for (const char c : text.substr(0, text.find_last_not_of(" \t") + 1)) {
    // A continuation byte of UTF-8: columns count characters.
    const bool goes_on = (c & 0xC0) == 0x80;
    end = c == '\n' ? toml::source_position{end.line + 1, 1}
                    : toml::source_position{end.line, end.column + !goes_on};
  }
  return table.size() == 1 && table.begin()->second.source().end == end;
}

// Returns a TOML string on one line, with line ends as \n.
std::string quoted(const std::string& text) {
  std::ostringstream written;
  const toml::value<std::string> node(text);
  written << toml::toml_formatter(node, toml::format_flags::allow_unicode_strings);
  return written.str();
}

// Returns the parts of a text: "a, b" -> {"a", "b"}; "" -> {}.
std::vector<std::string> comma_separated(const std::string& text) {
  if (text.empty()) return {};
  const std::vector<std::string_view> parts = split(text, ',');
  return {parts.begin(), parts.end()};
}

}  // namespace

ConfigDocument::ConfigDocument(std::string name, const std::string& toml, bool is_path)
    : source(std::move(name)), is_file(is_path) {
  require_few_dots(toml, source);
  try {
    // Parses without `source`, which the TOML library copies where an exception ends the process.
    add_settings(toml::parse(toml), "", source, settings);
  } catch (const toml::parse_error& error) {
    const bool may_be_data = is_path && error.source().begin.line == 1;
    throw InputError(fmt::format(
        "{}: {}; correct the TOML{}", position(source, error.source()), error.description(),
        error.description().find("could not determine value type") != std::string_view::npos
            ? "; a text needs quotes"
        : may_be_data
            ? "; if the file contains data, give the config that `tapestry init FILE` writes"
            : ""));
  }
}

const TomlSetting* ConfigDocument::find(const std::string& name) const {
  const auto found = std::ranges::find(settings, name, &TomlSetting::name);
  return found == settings.end() ? nullptr : &*found;
}

TomlSetting parse_override(const std::string& text, bool is_string) {
  const std::size_t equals = text.find('=');
  expect_input(equals != std::string::npos && equals > 0, "--set {}: expected key=value", text);
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  require_few_dots(text, "--set " + name.substr(0, 100));
  const std::string written = "value = " + value;
  try {
    const toml::table table = toml::parse(written);
    const toml::node* node = table.get("value");
    if (is_whole(table, written) && (!is_string || node->is_string()))
      return setting_of(name, "--set", *node);
  } catch (const toml::parse_error&) {  // unquoted text
  }
  return {.name = name, .origin = "--set", .value = Value(value)};
}

std::string TomlSetting::shown() const {
  if (!value) return other_type;
  const bool is_list = std::holds_alternative<std::vector<std::int64_t>>(*value) ||
                       std::holds_alternative<std::vector<std::string>>(*value);
  return is_list ? "[…]" : printable_beginning(to_toml(*value));
}

std::optional<Value> TomlSetting::as_type_of(const Value& like) const {
  if (!value || value->index() == like.index()) return value;
  const auto* text = std::get_if<std::string>(&*value);
  const auto* texts = std::get_if<std::vector<std::string>>(&*value);
  if (const auto* integer = std::get_if<std::int64_t>(&*value))
    if (std::holds_alternative<double>(like)) return Value(static_cast<double>(*integer));
  if (text && std::holds_alternative<std::vector<std::string>>(like))
    return Value(comma_separated(*text));
  if (texts && texts->empty() && std::holds_alternative<std::vector<std::int64_t>>(like))
    return Value(std::vector<std::int64_t>());
  return std::nullopt;
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
        if constexpr (std::is_same_v<T, std::string>) return quoted(held);
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::vector<std::string> items;
          for (const std::string& text : held) items.push_back(quoted(text));
          return fmt::format("[{}]", fmt::join(items, ", "));
        }
      },
      value);
}

}  // namespace tapestry
