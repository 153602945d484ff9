#include "data/table/records.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "autograd/check.hpp"
#include "data/json.hpp"
#include "data/table/scanner.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

constexpr char delimiters[] = {'\t', ';', ',', '|'};

// The numbers of cells of the records with a delimiter.
struct Shape {
  std::int64_t first = 0, others = 0;  // others: of the second record
  bool is_even = true;                 // of all records after it, too
};

// Counts the cells of the records up to the first one that has other ones than the second.
std::optional<Shape> shape_with(const std::string& path, std::string_view text, char delimiter) {
  Scanner scanner(path, text, delimiter);
  Shape shape;
  try {
    for (std::int64_t record = 0; shape.is_even && scanner.find_record(); ++record) {
      if (record == 2 && shape.others < 2) break;
      std::int64_t cells = 0;
      scanner.read_record([&](std::size_t) { ++cells; });
      if (record == 0) shape.first = cells;
      if (record <= 1) shape.others = cells;
      shape.is_even = cells == shape.others;
    }
  } catch (const InputError&) {  // quotes that do not end there
    return std::nullopt;
  }
  return shape;
}

// Returns whether the first record has as many cells as the others, or the name of the column of
// names of rows is missing.
bool is_table(const Shape& shape) {
  return shape.others >= 2 && (shape.first == shape.others || shape.first + 1 == shape.others);
}

// Returns whether the first line that is not blank has a digit, if not `in_words` outside of words:
// the one of x1 is within.
bool begins_with_digits(std::string_view text, bool in_words) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  unsigned char last = ' ';
  for (const unsigned char c : line) {
    if (std::isdigit(c) && (in_words || (!std::isalnum(last) && last != '_'))) return true;
    last = c;
  }
  return false;
}

// Returns how many of the lines with # before a table are no records of it. `text` begins with the
// last of them, which are records if they have the cells of all others. Commas may be those of a
// comment: there, only the last line is one, above digits, or lines of a table whose other lines
// begin with #, too.
std::size_t count_comments(const std::string& path, const std::vector<std::string_view>& lines,
                           std::string_view text, char delimiter) {
  const auto cells_of = [&](std::string_view line) {
    const auto shape = shape_with(path, line, delimiter);
    return shape ? shape->first : 0;
  };
  if (lines.back().find(delimiter) == lines.back().npos) return lines.size();
  const std::string_view below = text.substr(lines.back().size());
  const bool is_alone = trimmed(below).empty();
  const bool recurs = below.find("\n#") != below.npos || below.find("\r#") != below.npos;
  const bool may_be_names = !lines.back().starts_with("# ");  // as in "#id,name"
  if (delimiter == ',' && !recurs && !begins_with_digits(below, may_be_names)) return lines.size();
  const auto shape = shape_with(path, text, delimiter);
  const bool is_record =
      shape && shape->first >= 2 && (is_alone || (shape->is_even && shape->first == shape->others));
  if (!is_record) return lines.size();
  std::size_t comments = lines.size() - 1;
  if (delimiter == ',' && !recurs) return comments;
  while (comments > 0 && cells_of(lines[comments - 1]) == shape->first) --comments;
  return is_alone && comments + 1 == lines.size() ? lines.size() : comments;
}

std::string in_quotes(std::string_view text) {
  std::string cell = "\"";
  for (const char character : text) cell += character == '"' ? "\"\"" : std::string(1, character);
  return cell + '"';
}

// Returns a cell with a value of JSON: a text in quotes; nothing for null.
std::string cell_of(const JsonValue& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return in_quotes(value.get<std::string>());
  constexpr double most_exact = 1e15;
  if (value.is_number() && !value.is_number_integer())
    if (const auto number = value.get<double>();
        number == std::floor(number) && std::abs(number) < most_exact)
      return fmt::format("{}", static_cast<std::int64_t>(number));
  return value.dump();
}

}  // namespace

Records::Records(const std::string& path, char delimiter, bool has_objects)
    : path_(path), delimiter_(has_objects ? ',' : delimiter) {
  if (has_objects) {
    read_objects();
    return;
  }
  content_ = read_text(path);
  const std::size_t zero = content_.find('\0');
  if (zero != content_.npos)
    FileLine{path_, line_number(content_, zero)}.fail(
        "has a zero byte; expected text in UTF-8: iconv -f UTF-16LE -t UTF-8 FILE > NEW converts "
        "UTF-16");
  skip_separator_line();
  skip_comments();
  if (delimiter_ == detected) choose_delimiter();
  divide();
}

// Reads the objects of JSONL. A record ends at the last column that is known there; the cells
// behind it end there, too, and so are empty.
void Records::read_objects() {
  constexpr std::size_t most_columns = 1000, most_cells = 1'000'000'000;
  std::map<std::string, std::size_t> columns;
  std::vector<std::string> names, cells;
  std::vector<std::uint32_t> ends, counts;
  const std::function<void(const JsonValue&, const std::string&)> add =
      [&](const JsonValue& object, const std::string& outer) {
        for (const auto& [inner, value] : object.items()) {
          const std::string name = outer + inner;
          if (value.is_object()) {
            add(value, name + ".");
            continue;
          }
          const auto column = columns.find(name);
          has_more_fields_ |= column == columns.end() && names.size() == most_columns;
          if (column != columns.end()) {
            cells[column->second] = cell_of(value);
          } else if (names.size() < most_columns) {
            columns.emplace(name, names.size());
            names.push_back(name);
            cells.push_back(cell_of(value));
          }
        }
      };
  const auto push = [&](std::int64_t line) {
    begins_.push_back(content_.size());
    lines_.push_back(line);
    for (const std::string& cell : cells) {
      content_ += cell + ',';
      ends.push_back(static_cast<std::uint32_t>(content_.size() - 1 - begins_.back()));
    }
    counts.push_back(static_cast<std::uint32_t>(cells.size()));
  };
  for_each_line(path_, [&](const FileLine& line) {
    if (trimmed(line.text).empty()) return;
    cells.assign(names.size(), "");
    add(json_object_of(line), "");
    push(line.number);
    line.expect(names.size() * begins_.size() <= most_cells,
                "{} fields in {} lines; expected at most {} values; divide the file", names.size(),
                begins_.size(), most_cells);
  });
  expect_input(!names.empty(), "{}: has no object with fields; expected one in each line", path_);
  cells.clear();
  for (const std::string& name : names) cells.push_back(cell_of(name));
  push(1);
  columns_ = std::ssize(names);
  ends_.insert(ends_.end(), ends.end() - columns_, ends.end());
  auto end = ends.begin();
  for (std::size_t record = 0; record + 1 < counts.size(); ++record) {
    ends_.insert(ends_.end(), end, end + counts[record]);
    end += counts[record];
    ends_.resize((record + 2) * names.size(), counts[record] == 0 ? 0 : end[-1]);
  }
  std::ranges::rotate(begins_, begins_.end() - 1);  // the names are first
  std::ranges::rotate(lines_, lines_.end() - 1);
}

// Sets the delimiter by a first line "sep=;", as Excel writes it, and the beginning behind it.
void Records::skip_separator_line() {
  const std::string_view line =
      std::string_view(content_).substr(0, content_.find_first_of("\r\n"));
  if (line.size() != 5 || !lower_ascii(line).starts_with("sep=") ||
      std::ranges::find(delimiters, line[4]) == std::end(delimiters) ||
      line.size() == content_.size())
    return;
  if (delimiter_ == detected) delimiter_ = line[4];
  beginning_ = after_line_end(content_, line.size());
}

// Sets the beginning behind the lines that begin with # or, if a space is the delimiter, %, except
// those that have the cells of the records below.
void Records::skip_comments() {
  const std::string_view text = std::string_view(content_).substr(beginning_);
  std::vector<std::string_view> lines;
  std::size_t after = 0;
  while (true) {
    const std::size_t mark = text.find_first_not_of(" \t\r\n", after);
    const bool is_comment =
        mark != text.npos && (text[mark] == '#' || (text[mark] == '%' && delimiter_ == ' '));
    if (!is_comment) break;
    const std::size_t end = std::min(text.find_first_of("\r\n", mark), text.size());
    lines.push_back(text.substr(mark, end - mark));
    after = end < text.size() ? after_line_end(text, end) : end;
  }
  if (lines.empty()) return;
  const std::string_view from_last = text.substr(lines.back().data() - text.data());
  std::size_t comments = lines.size();
  for (const char delimiter : delimiters)
    comments = std::min(comments, count_comments(path_, lines, from_last, delimiter));
  skipped_comments_ = static_cast<std::int64_t>(comments);
  beginning_ = comments < lines.size()
                   ? static_cast<std::size_t>(lines[comments].data() - content_.data())
                   : beginning_ + after;
}

void Records::choose_delimiter() {
  const std::string_view text = std::string_view(content_).substr(beginning_);
  std::optional<char> likely;
  for (const char candidate : delimiters) {
    const auto shape = shape_with(path_, text, candidate);
    if (!shape) {
      const std::string_view header = text.substr(0, text.find_first_of("\r\n"));
      if (!likely && header.find(candidate) != header.npos) likely = candidate;
      continue;
    }
    if (shape->is_even && is_table(*shape)) {
      delimiter_ = candidate;
      return;
    }
    if (!likely && shape->first >= 2) likely = candidate;
  }
  delimiter_ = likely.value_or(',');
}

void Records::divide() {
  const std::string_view text = std::string_view(content_).substr(beginning_);
  Scanner scanner(path_, text, delimiter_);
  std::int64_t first = 0, number = line_number(content_, beginning_);
  std::size_t numbered = 0;  // its line has `number`
  bool last_is_empty = true;
  for (std::size_t after = 0; scanner.find_record(); after = scanner.at) {
    const std::size_t begin = scanner.at;
    number += line_number(text.substr(numbered), begin - numbered) - 1;
    numbered = begin;
    lines_.push_back(number);
    std::int64_t cells = 0;
    std::uint32_t last = 0, end_before = 0;
    scanner.read_record([&](std::size_t end) {
      if (end - begin > std::numeric_limits<std::uint32_t>::max())
        FileLine{path_, number}.fail("the row has more than 4 GB; divide it");
      end_before = last;
      last = static_cast<std::uint32_t>(end - begin);
      ends_.push_back(last);
      ++cells;
    });
    begins_.push_back(beginning_ + begin);
    if (begins_.size() == 1) first = cells;
    if (begins_.size() > 1 && cells > 1)
      last_is_empty &= trimmed(text.substr(begin + end_before + 1, last - end_before - 1)).empty();
    if (begins_.size() == 1 || (begins_.size() == 2 && cells == first + 1)) columns_ = cells;
    if (cells != columns_)
      line(size() - 1)
          .fail(fmt::format("expected {} columns as in the first row, found {}; correct the line",
                            columns_, cells));
    if (columns_ == 1 && size() > 1 && begin != after)
      line(size() - 1).fail("follows an empty line; remove that, or enter NA there");
  }
  expect_input(size() > 0, "{}: the file is empty; expected a table", path_);
  if (first == columns_) return;
  // The first record lacks a cell: the one before the others, or an empty one behind them.
  has_row_names_ = !last_is_empty;
  ends_.insert(has_row_names_ ? ends_.begin() : ends_.begin() + first,
               has_row_names_ ? 0 : ends_[first - 1]);
}

std::string_view Records::raw(std::int64_t record, std::int64_t column) const {
  const std::uint32_t* const ends = ends_.data() + record * columns_;
  const char* const text = content_.data() + begins_[record];
  // A cell that was inserted at the beginning ends at 0, and its neighbor begins there.
  std::size_t begin = column == 0 ? 0 : ends[column - 1] + 1;
  if (has_row_names_ && record == 0 && column == 1) begin = 0;
  const std::size_t end = ends[column];
  if (begin > end) return {};
  return bare_cell({text + begin, end - begin}, delimiter_);
}

bool Records::is_quoted(std::int64_t record, std::int64_t column) const {
  const char* const cell = raw(record, column).data();
  return cell != nullptr && cell != content_.data() && cell[-1] == '"';
}

std::string Records::text(std::int64_t record, std::int64_t column) const {
  const std::string_view cell = raw(record, column);
  if (cell.find('"') == cell.npos || !is_quoted(record, column)) return std::string(cell);
  return without_doubled_quotes(cell);
}

FileLine Records::line(std::int64_t record) const { return {path_, lines_[record]}; }

std::string csv_quoted(std::string_view text, char delimiter) {
  if (text.find_first_of("\"\r\n") == text.npos && text.find(delimiter) == text.npos &&
      trimmed(text).size() == text.size())
    return std::string(text);
  return in_quotes(text);
}

std::string shown(std::string_view text) {
  constexpr std::size_t most = 40;
  return printable(text.substr(0, most)) + (text.size() > most ? "..." : "");
}

}  // namespace tapestry
