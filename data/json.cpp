#include "data/json.hpp"

#include <algorithm>

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

}  // namespace tapestry
