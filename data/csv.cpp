#include "data/csv.hpp"

#include <algorithm>
#include <iterator>

#include "autograd/check.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

// Returns the length in bytes of the quoted beginning of a line's rest, including both quotes; 0 if
// it does not begin with a quote. A doubled quote within it represents one quote. Throws InputError
// if the closing quote is missing.
std::size_t quoted_length(std::string_view rest, const FileLine& line) {
  if (!rest.starts_with('"')) return 0;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] != '"') continue;
    if (!rest.substr(i + 1).starts_with('"')) return i + 1;
    ++i;
  }
  line.fail(shown(rest) + ": the closing quote is missing; add it");
}

// Returns the text without white space around it, but with its tabs if they are delimiters.
std::string_view trimmed_cell(std::string_view text, char delimiter) {
  if (delimiter != '\t') return trimmed(text);
  const std::size_t first = text.find_first_not_of(" \r"), last = text.find_last_not_of(" \r");
  return first == text.npos ? std::string_view() : text.substr(first, last - first + 1);
}

}  // namespace

CsvFile::CsvFile(const std::string& path) : path_(path), content_(read_text(path)) {
  rows_ = content_;
  rows_ = rows_.substr(0, rows_.find_last_not_of(" \t\r\n\v\f") + 1);
  const auto header = next_line(rows_);
  expect_input(header.has_value(), "{}: the file is empty; expected a CSV file with a header",
               path);
  header_ = *header;
}

std::vector<std::string> csv_names(const FileLine& header, char delimiter) {
  std::vector<std::string> names;
  for (const std::string_view cell : csv_cells(header, delimiter)) names.push_back(csv_text(cell));
  if (names.front().empty() && names.size() > 1) names.front() = index_column;
  return names;
}

bool is_missing(std::string_view cell) {
  constexpr std::string_view words[] = {"",     "NA",   "N/A",  "NaN",  "nan", "NAN", "null",
                                        "NULL", "Null", "None", "none", "-",   "?"};
  return std::ranges::find(words, cell) != std::end(words);
}

std::optional<float> csv_number(std::string_view cell, char decimal) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  if (decimal != ',') return parse_float(cell);
  if (cell.find('.') != cell.npos) return std::nullopt;
  std::string text(cell);
  std::ranges::replace(text, ',', '.');
  return parse_float(text);
}

char csv_decimal(const std::vector<std::vector<std::string_view>>& rows) {
  bool has_comma = false, has_point = false;
  for (const std::vector<std::string_view>& cells : rows)
    for (const std::string_view cell : cells) {
      has_comma |= cell.find(',') != cell.npos && csv_number(cell, ',').has_value();
      has_point |= cell.find('.') != cell.npos && csv_number(cell, '.').has_value();
    }
  return has_comma && !has_point ? ',' : '.';
}

std::string csv_quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos && trimmed(text).size() == text.size())
    return std::string(text);
  std::string cell = "\"";
  for (const char character : text) cell += character == '"' ? "\"\"" : std::string(1, character);
  return cell + '"';
}

std::string shown(std::string_view text) {
  constexpr std::size_t most = 40;
  return printable(text.substr(0, most)) + (text.size() > most ? "..." : "");
}

char csv_delimiter(const FileLine& header) {
  bool is_quoted = false, has_semicolon = false;
  for (const char character : header.text) {
    is_quoted ^= character == '"';
    if (is_quoted) continue;
    if (character == '\t') return '\t';
    has_semicolon |= character == ';';
  }
  return has_semicolon ? ';' : ',';
}

bool csv_is_open(std::string_view line, char delimiter, bool open) {
  bool begins = !open, closed = false;  // before a cell's text, after a closing quote
  for (const char character : line) {
    const bool switches = character == '"' && (open || begins || closed);  // else it is text
    closed = switches && open;
    open ^= switches;
    begins = !open && !switches && (character == delimiter || (begins && character == ' '));
  }
  return open;
}

std::vector<std::string_view> csv_cells(const FileLine& line, char delimiter) {
  std::vector<std::string_view> cells;
  std::string_view rest = line.text;
  for (bool more = true; more;) {
    rest = trimmed_cell(rest, delimiter);
    const std::size_t quotes = quoted_length(rest, line);
    const std::size_t end = rest.find(delimiter, quotes);
    const std::string_view cell = trimmed_cell(rest.substr(0, end), delimiter);
    if (quotes > 0 && cell.size() != quotes)
      line.fail(fmt::format("{}: the cell continues after its closing quote; expected a {}",
                            shown(cell), delimiter == '\t' ? "tab" : std::string(1, delimiter)));
    cells.push_back(quotes == 0 ? cell : cell.substr(1, quotes - 2));
    more = end != std::string_view::npos;
    if (more) rest.remove_prefix(end + 1);
  }
  return cells;
}

std::vector<std::string_view> csv_row(const FileLine& line, char delimiter, std::size_t columns) {
  line.expect(!trimmed(line.text).empty(), "the line is empty; remove it");
  std::vector<std::string_view> cells = csv_cells(line, delimiter);
  line.expect(cells.size() == columns,
              "expected {} columns as in the header, found {}; correct the line", columns,
              cells.size());
  return cells;
}

std::string csv_text(std::string_view cell) {
  std::string name;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    name += cell[i];
    if (cell.substr(i).starts_with("\"\"")) ++i;
  }
  return name;
}

}  // namespace tapestry
