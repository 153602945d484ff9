#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/input_file.hpp"

namespace tapestry {

// The delimiter of a text whose lines are its records, of one cell each.
inline constexpr char no_delimiter = '\n';

inline bool ends_line(char character) { return character == '\n' || character == '\r'; }
// Returns the place after a line end at `at`: "\n", "\r\n" or "\r".
std::size_t after_line_end(std::string_view text, std::size_t at);
// Returns the number of the line at `at`, from 1.
std::int64_t line_number(std::string_view text, std::size_t at);

// Returns a cell, trimmed, without the quotes around it. Doubled quotes within it remain.
std::string_view bare_cell(std::string_view cell, char delimiter);
// Returns the text of such a cell that was in quotes.
std::string without_doubled_quotes(std::string_view cell);

// The cells of a text, one after the other. `first_line`: the number of its first line.
class Scanner {
 public:
  Scanner(const std::string& path, std::string_view text, char delimiter,
          std::int64_t first_line = 1)
      : path_(path), text_(text), delimiter_(delimiter), first_line_(first_line) {}

  std::size_t at = 0;

  // Skips empty lines. Returns whether a record follows.
  bool find_record();

  // Calls take(end) for each cell of the record at `at`, and goes to the next record. Throws
  // InputError with the line for quotes that do not end, or are followed by other text.
  void read_record(const auto& take) {
    for (const std::size_t begin = at;;) {
      skip_cell(begin);
      take(at);
      if (at == text_.size()) return;
      if (text_[at] != delimiter_) {
        at = after_line_end(text_, at);
        return;
      }
      ++at;
    }
  }

 private:
  bool is_blank(char character) const {
    return character == ' ' || ends_line(character) || (character == '\t' && delimiter_ != '\t');
  }
  // Goes to the end of the cell at `at`, of the record at `begin`.
  void skip_cell(std::size_t begin) {
    while (at < text_.size() && text_[at] == ' ') ++at;
    if (at < text_.size() && text_[at] == '"') skip_quotes(begin);
    while (at < text_.size() && text_[at] != delimiter_ && !ends_line(text_[at])) ++at;
  }
  void skip_quotes(std::size_t begin);
  [[noreturn]] void fail(std::size_t begin, const std::string& problem,
                         std::size_t end = std::string_view::npos) const;

  const std::string& path_;
  std::string_view text_;
  char delimiter_;
  std::int64_t first_line_;
};

}  // namespace tapestry
