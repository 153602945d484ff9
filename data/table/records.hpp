#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.hpp"

namespace tapestry {

inline constexpr char detected = 0;  // a delimiter or a mark that the file shows
// The name of a first column without one: pandas and R write row numbers or times there.
inline constexpr const char* index_column = "(index)";

// The records of a file of delimited text (RFC 4180), plain or gzip, without its header. A cell in
// quotes may contain delimiters and line ends; a doubled quote in it is one quote. In a table with
// tabs a quote that is not closed within its line is text. Empty lines are left out.
// Takes 4 bytes for each cell and 16 for each record beside the text.
class Records {
 public:
  // `has_objects`: the file is JSONL. The names of the members of its objects are the first record,
  // "outer.inner" for those of an object within, and their values the cells below: texts in quotes,
  // whole numbers without a fraction, nothing for null, and JSON for other values.
  // Throws InputError as read_text() does, and with the line for quotes that do not end, or are
  // followed by other text, for a row that has another number of cells than the first, and for what
  // is no JSON object.
  Records(const std::string& path, char delimiter, bool has_objects = false);
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  const std::string& path() const { return path_; }
  char delimiter() const { return delimiter_; }
  std::int64_t size() const { return std::ssize(begins_); }
  std::int64_t columns() const { return columns_; }
  std::int64_t skipped_comments() const { return skipped_comments_; }
  bool has_more_fields() const { return has_more_fields_; }  // than 1000, which are left out
  // Whether the first column is one of names of rows, which the first record lacks (as R writes).
  bool has_row_names() const { return has_row_names_; }

  // Returns a cell, trimmed, without the quotes around it. Doubled quotes within it remain.
  std::string_view raw(std::int64_t record, std::int64_t column) const;
  // Returns whether a cell is in quotes.
  bool is_quoted(std::int64_t record, std::int64_t column) const;
  // Returns a cell as a text.
  std::string text(std::int64_t record, std::int64_t column) const;
  // Returns the place of a record, for messages.
  FileLine line(std::int64_t record) const;

 private:
  void read_objects();
  void skip_separator_line();
  void skip_comments();
  void choose_delimiter();
  void divide();

  std::string path_, content_;
  char delimiter_;
  std::size_t beginning_ = 0;  // of the first record
  std::int64_t columns_ = 0, skipped_comments_ = 0;
  bool has_row_names_ = false, has_more_fields_ = false;
  std::vector<std::uint64_t> begins_{};  // of the records
  std::vector<std::int64_t> lines_{};    // of the records, from 1
  std::vector<std::uint32_t> ends_{};    // of the cells, from the beginning of their record
};

// Returns a text as a cell of a table with this delimiter: in quotes if it contains the delimiter,
// a quote or a line end, or begins or ends with white space.
std::string csv_quoted(std::string_view text, char delimiter = ',');

// Returns the first 40 bytes of a text, printable, for a message; "..." replaces the rest.
std::string shown(std::string_view text);

}  // namespace tapestry
