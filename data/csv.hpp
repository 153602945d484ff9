#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.hpp"

// Tables in CSV files: cells between delimiters (RFC 4180), without cells of several lines.
namespace tapestry {

inline constexpr char detected = 0;  // a delimiter or decimal mark that the file shows
// The name of a first column without one: pandas writes row numbers or times there.
inline constexpr const char* index_column = "(index)";

// A CSV file with a header, plain or gzip, whose lines can be read several times. The constructor
// throws InputError as read_text() does, or if the file is empty. Empty lines at the end are left
// out.
class CsvFile {
 public:
  explicit CsvFile(const std::string& path);
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  FileLine header() const { return {.path = path_, .text = header_}; }
  // Calls take(line) for the lines after the header, of which there are at most `most`.
  void for_each_row(std::size_t most, const auto& take) const {
    std::string_view rest = rows_;
    FileLine line = header();
    for (std::size_t i = 0; i < most; ++i) {
      const auto text = next_line(rest);
      if (!text) return;
      ++line.number;
      line.text = *text;
      take(line);
    }
  }
  void for_each_row(const auto& take) const { for_each_row(content_.size(), take); }

 private:
  std::string path_, content_;
  std::string_view header_, rows_;
};

// Returns the delimiter of a table's header: a tab if there is one outside of quotes, else a
// semicolon if there is one, else a comma.
char csv_delimiter(const FileLine& header);

// Returns whether a cell in quotes continues after a line. `open`: it began before the line.
bool csv_is_open(std::string_view line, char delimiter, bool open);

// Returns the cells of a line, trimmed. A cell in quotes may contain delimiters; it is returned
// without these quotes, but with doubled quotes within it. Throws InputError for a closing quote
// that is missing, or that is followed by other text.
std::vector<std::string_view> csv_cells(const FileLine& line, char delimiter);

// Returns the cells of a row. Throws InputError if it is empty, or has another number of cells than
// the header.
std::vector<std::string_view> csv_row(const FileLine& line, char delimiter, std::size_t columns);

// Returns a cell in which each doubled quote is replaced by one.
std::string csv_text(std::string_view cell);

// Returns the names of the columns. A first one without a name is index_column if there are others.
std::vector<std::string> csv_names(const FileLine& header, char delimiter);

// Returns whether a cell has no value: it is empty, or a word for that such as "NA" or "null".
bool is_missing(std::string_view cell);

// Returns the float32 number with this decimal mark, '.' or ','; nothing if the cell is none.
std::optional<float> csv_number(std::string_view cell, char decimal);

// Returns the decimal mark of the numbers in some rows: a comma if cells are numbers with it and
// none is a number with a point.
char csv_decimal(const std::vector<std::vector<std::string_view>>& rows);

// Returns a text as a cell: in quotes if it contains a comma, a quote or a line end, or begins or
// ends with white space.
std::string csv_quoted(std::string_view text);

// Returns the first 40 bytes of a text, printable, for a message; "..." replaces the rest.
std::string shown(std::string_view text);

}  // namespace tapestry
