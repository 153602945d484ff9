#include "train/config/toml.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "data/input_file.hpp"

namespace tapestry {
namespace {

// A number as TOML that reads back as the same double, and as a float.
std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

std::string position(const std::string& source, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", source, region.begin.line, region.begin.column);
}

void require_few_dots(std::string_view text, const std::string& source) {
  constexpr std::ptrdiff_t most = 1000;
  expect_input(std::ranges::count(text, '.') <= most,
               "{}: over {} dots, which no config needs: its keys may be nested too deep", source,
               most);
}

toml::table parse_toml(const std::string& text, const std::string& source) {
  require_few_dots(text, source);
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}: {}", position(source, error.source()), error.description()));
  }
}

namespace {

// Always on one line: "a\nb".
std::string quoted(const std::string& text) {
  std::ostringstream written;
  const toml::value<std::string> node(text);
  written << toml::toml_formatter(node, toml::format_flags::allow_unicode_strings);
  return written.str();
}

}  // namespace

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

namespace {

// A list of nothing but T.
template <class T>
std::optional<Value> items_of(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (!list) return std::nullopt;
  std::vector<T> values;
  for (const toml::node& item : *list) {
    if (!item.is<T>()) return std::nullopt;
    values.push_back(item.as<T>()->get());
  }
  return Value(values);
}

// "a, b" -> {"a", "b"}; "" -> {}
std::vector<std::string> comma_separated(const std::string& text) {
  if (text.empty()) return {};
  const std::vector<std::string_view> parts = split(text, ',');
  return {parts.begin(), parts.end()};
}

}  // namespace

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
  } else if (std::holds_alternative<std::vector<std::int64_t>>(like)) {
    return items_of<std::int64_t>(node);
  } else {
    return node.is_string() ? Value(comma_separated(node.as_string()->get()))
                            : items_of<std::string>(node);
  }
  return std::nullopt;
}

std::string show(const toml::node& node) {
  for (const Value& like : {Value(false), Value(std::int64_t{}), Value(0.0), Value(std::string())})
    if (const std::optional<Value> value = convert(node, like)) return to_toml(*value);
  if (node.is_array()) return "[…]";
  if (node.is_table()) return "{…}";
  std::ostringstream shown;
  shown << toml::toml_formatter(node);
  return shown.str();
}

}  // namespace tapestry
