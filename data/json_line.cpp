#include "data/json_line.hpp"

#include "data/text/printable.hpp"

namespace tapestry {

JsonValue json_object_of(const FileLine& line) {
  constexpr std::size_t max_line_bytes = std::size_t{1} << 24;
  line.expect(line.text.size() <= max_line_bytes,
              "the line has {} bytes; expected at most {}; shorten it", line.text.size(),
              max_line_bytes);
  line.expect(json_depth(line.text) <= max_json_depth,
              "lists and objects are nested more than {} deep; remove the line", max_json_depth);
  JsonValue object;
  try {
    object = JsonValue::parse(line.text).sort_keys();
  } catch (const JsonValue::exception&) {
    line.fail(fmt::format("not JSON: {}; expected an object per line",
                          printable(line.text.substr(0, 60))));
  }
  line.expect(object.is_object(), "found {}; expected an object", brief(object));
  return object;
}

std::string member_names(const JsonValue& object) {
  std::string names;
  for (const auto& [name, value] : object.items())
    names += (names.empty() ? "" : ", ") + brief(name);
  return names.empty() ? "none" : names.size() <= 200 ? names : names.substr(0, 200) + "...";
}

}  // namespace tapestry
