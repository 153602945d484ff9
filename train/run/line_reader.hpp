#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "data/json.hpp"

namespace tapestry {

// The lines of a file that grows, such as metrics.jsonl, one at a time, in bounded memory whatever
// has become of the file. A last line without its end is one that is being written: it is left out.
class LineReader {
 public:
  static constexpr std::int64_t max_bytes = 1 << 14;  // of a line

  // A file that is not there has no lines. InputError of what is no file, such as a pipe.
  explicit LineReader(const std::string& path);

  bool next();                                       // false: there is no other yet
  const std::string& text() const { return text_; }  // empty where it is longer than max_bytes
  std::int64_t number() const { return number_; }    // from 1
  std::int64_t end() const { return end_; }          // bytes of the file up to and with this line

 private:
  std::ifstream file_;
  std::string text_;
  std::int64_t number_ = 0, end_ = 0;
};

// A line of metrics.jsonl, with an integer "step", a string "split", a number "elapsed_s", and
// figures in the order of the line. Nothing where it is damaged, or above 16 KiB.
std::optional<JsonValue> parse_metrics_line(std::string_view line);

}  // namespace tapestry
