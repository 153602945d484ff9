#include "data/csv.hpp"

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
  line.fail(shown(rest) +
            ": the closing quote is missing; expected one before the end of the line");
}

// Returns the text without white space around it, but with its tabs if they are delimiters.
std::string_view trimmed_cell(std::string_view text, char delimiter) {
  if (delimiter != '\t') return trimmed(text);
  const std::size_t first = text.find_first_not_of(" \r"), last = text.find_last_not_of(" \r");
  return first == text.npos ? std::string_view() : text.substr(first, last - first + 1);
}

}  // namespace

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

std::string csv_text(std::string_view cell) {
  std::string name;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    name += cell[i];
    if (cell.substr(i).starts_with("\"\"")) ++i;
  }
  return name;
}

}  // namespace tapestry
