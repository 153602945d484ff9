#include "train/run/metrics_line.hpp"

#include "data/json.hpp"
#include "train/run/line_reader.hpp"

namespace tapestry {

std::optional<JsonValue> parse_metrics_line(std::string_view line) {
  using Json = JsonValue;
  if (std::ssize(line) > LineReader::max_bytes || json_depth(line) > max_json_depth)
    return std::nullopt;
  const Json entry = Json::parse_or_null(line);
  if (!entry.is_object()) return std::nullopt;
  const auto is = [&](const char* field, bool (Json::*type)() const noexcept) {
    const auto found = entry.find(field);
    return found != entry.end() && ((*found).*type)();
  };
  const bool whole = is("step", &Json::is_number_integer) && is("split", &Json::is_string) &&
                     is("elapsed_s", &Json::is_number);
  return whole ? std::optional(entry) : std::nullopt;
}

}  // namespace tapestry
