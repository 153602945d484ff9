#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/series/series.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

// Returns at most 40 bytes of a text, for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 40;
  return printable(text.substr(0, most)) + (text.size() > most ? "..." : "");
}

// Returns the length in bytes of the quoted beginning of a line's rest, including both quotes; 0 if
// it does not begin with a quote. A doubled quote within it represents one quote.
std::size_t quoted_length(std::string_view rest, const FileLine& line) {
  if (!rest.starts_with('"')) return 0;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] != '"') continue;
    if (!rest.substr(i + 1).starts_with('"')) return i + 1;
    ++i;
  }
  line.fail(shown(rest) + ": the closing quote is missing");
}

// Returns the cells of a line, trimmed. A cell in quotes may have commas (RFC 4180); it is returned
// without these quotes, but with doubled quotes within it.
std::vector<std::string_view> cells_of(const FileLine& line) {
  std::vector<std::string_view> cells;
  std::string_view rest = line.text;
  for (bool more = true; more;) {
    rest = trimmed(rest);
    const std::size_t quotes = quoted_length(rest, line);
    const std::size_t comma = rest.find(',', quotes);
    const std::string_view cell = trimmed(rest.substr(0, comma));
    if (quotes > 0 && cell.size() != quotes)
      line.fail(shown(cell) + ": the cell continues after its closing quote; expected a comma");
    cells.push_back(quotes == 0 ? cell : cell.substr(1, quotes - 2));
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return cells;
}

// Returns the seconds of "12:30" or "12:30:15".
std::optional<std::int64_t> time_of_day(std::string_view text) {
  constexpr std::int64_t limits[] = {24, 60, 60}, seconds[] = {3600, 60, 1};
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = parse_number<std::int64_t>(parts[i]);
    if (!value || *value < 0 || *value >= limits[i]) return std::nullopt;
    total += *value * seconds[i];
  }
  return total;
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  const std::size_t space = text.find_first_of(" T");
  const std::vector<std::string_view> parts = split(text.substr(0, space), '-');
  if (parts.size() != 3) return std::nullopt;
  const auto year = parse_number<int>(parts[0]);
  const auto month = parse_number<unsigned>(parts[1]), day = parse_number<unsigned>(parts[2]);
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  const auto time = space == std::string_view::npos ? std::optional<std::int64_t>(0)
                                                    : time_of_day(text.substr(space + 1));
  if (*year < 1 || *year > 9999 || !date.ok() || !time) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * day_s + *time;
}

float cell(std::string_view text, const FileLine& line, const std::string& column) {
  const std::optional<float> value = parse_float(text.starts_with('+') ? text.substr(1) : text);
  if (value) return *value;
  line.expect(!text.empty(),
              "column {}: the cell is empty; enter a number, or remove the column or the row",
              shown(column));
  line.fail(fmt::format("column {}: \"{}\" is not a float32 number; enter one", shown(column),
                        shown(text)));
}

std::int64_t row_time(std::string_view text, const FileLine& line, const std::string& column) {
  if (const std::optional<std::int64_t> time = parse_time(text)) return *time;
  line.fail(fmt::format(
      "column {}: \"{}\" is not a date or time; expected 2016-07-31 or 2016-07-31 12:00:00",
      shown(column), shown(text)));
}

void check_order(const std::vector<std::int64_t>& times, const FileLine& line, bool gaps) {
  if (times.size() < 2) return;
  const std::int64_t last = times[times.size() - 2], step = times[1] - times[0];
  if (times.back() > last && (gaps || times.back() - last == step)) return;
  line.expect(times.back() > last,
              "{} is not later than {} in the line before; sort the rows by time",
              time_text(times.back()), time_text(last));
  const std::string fact =
      fmt::format("expected {}, found {}", time_text(last + step), time_text(times.back()));
  line.expect((times.back() - last) % step == 0, "{}", fact);
  throw OptionError("gaps",
                    fmt::format("{}: line {}: {}; add the missing rows, or sort the rows by time",
                                line.path, line.number, fact));
}

void check_names(const SeriesTable& table) {
  expect_input(!std::ranges::all_of(table.names,
                                    [](const auto& name) { return parse_float(name).has_value(); }),
               "{}: line 1: expected the names of the columns, found numbers; add a header line",
               table.path);
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : table.names) {
    expect_input(!name.empty(), "{}: line 1: column {} has no name; give it one", table.path,
                 seen.size() + 2);
    expect_input(seen.insert(name).second,
                 "{}: line 1: two columns are named {}; rename one of them", table.path,
                 shown(name));
  }
}

// Returns a name in which each doubled quote is replaced by one.
std::string unquoted(std::string_view cell) {
  std::string name;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    name += cell[i];
    if (cell.substr(i).starts_with("\"\"")) ++i;
  }
  return name;
}

// Returns the names of the columns, that of the times first.
std::vector<std::string> read_header(const FileLine& line) {
  std::vector<std::string> names;
  for (const std::string_view cell : cells_of(line)) names.push_back(unquoted(cell));
  line.expect(names.size() >= 2,
              "expected a date and at least one series, separated by commas, found \"{}\"",
              shown(line.text));
  return names;
}

}  // namespace

SeriesTable load_series(const std::string& path, const SeriesOptions& options) {
  const std::string content = read_text(path);
  std::string_view rest = content;
  rest = rest.substr(0, rest.find_last_not_of(" \t\r\n\v\f") + 1);
  FileLine line{.path = path};
  const auto header = next_line(rest);
  expect_input(header.has_value(), "{}: the file is empty; expected a CSV file with a header",
               path);
  line.text = *header;
  std::vector<std::string> names = read_header(line);
  const std::string time_column = names.front();
  const std::size_t width = names.size();
  names.erase(names.begin());
  SeriesTable table{.path = path, .names = std::move(names)};
  check_names(table);
  std::vector<float> values;
  while (const auto text = next_line(rest)) {
    ++line.number;
    line.text = *text;
    line.expect(!trimmed(line.text).empty(), "the line is empty; remove it");
    const std::vector<std::string_view> cells = cells_of(line);
    line.expect(cells.size() == width, "expected {} columns as in the header, found {}", width,
                cells.size());
    table.times.push_back(row_time(cells[0], line, time_column));
    check_order(table.times, line, options.gaps);
    for (std::size_t j = 1; j < width; ++j)
      values.push_back(cell(cells[j], line, table.names[j - 1]));
  }
  const std::int64_t rows = std::ssize(table.times);
  expect_input(rows >= 2, "{}: the file has {} of numbers; expected at least 2", path,
               counted(rows, "row"));
  table.values = Array::of(values, {rows, std::ssize(table.names)});
  return table;
}

}  // namespace tapestry
