#include "train/run/line_reader.hpp"

#include "data/input_file.hpp"

namespace tapestry {

LineReader::LineReader(const std::string& path) {
  if (!has_file(path)) return;
  file_.open(path, std::ios::binary);
  record_read(path);
}

bool LineReader::next() {
  text_.clear();
  if (!file_.good()) {  // it was read to its end, and may have grown
    file_.clear();
    file_.seekg(end_);
  }
  std::int64_t bytes = 0;
  for (int byte = file_.get(); file_.good(); byte = file_.get()) {
    ++bytes;
    if (byte == '\n') {
      ++number_;
      end_ += bytes;
      if (bytes > max_bytes + 1) text_.clear();
      return true;
    }
    if (bytes <= max_bytes) text_ += static_cast<char>(byte);
  }
  return false;
}

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
