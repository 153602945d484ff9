#include "data/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/check.hpp"

namespace tapestry {

int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (in_string && character == '\\')
      ++i;  // what it escapes
    else if (character == '"')
      in_string = !in_string;
    else if (!in_string && (character == '[' || character == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!in_string && (character == ']' || character == '}'))
      depth = std::max(depth - 1, 0);
  }
  return deepest;
}

nlohmann::json parse_json(std::string_view text, const std::string& path) {
  const int depth = json_depth(text);
  expect_input(depth <= max_json_depth,
               "{}: lists and objects within each other, {} deep; expected at most {}", path, depth,
               max_json_depth);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t byte = std::min(error.byte, text.size());
    throw InputError(fmt::format("{}: line {}: not JSON; copy or make the file again", path,
                                 1 + std::ranges::count(text.substr(0, byte), '\n')));
  } catch (const nlohmann::json::out_of_range&) {
    throw InputError(fmt::format(
        "{}: a number is too large for any computer's; copy or make the file again", path));
  }
}

std::string brief(const nlohmann::json& json) {
  constexpr std::size_t most = 60;
  const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

}  // namespace tapestry
