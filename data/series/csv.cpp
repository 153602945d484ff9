#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/series/series.hpp"
#include "data/text/text.hpp"

namespace tapestry {
namespace {

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What was found, for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 40;
  return printable(text.substr(0, most)) + (text.size() > most ? "..." : "");
}

// Where in a file something is wrong.
struct Place {
  const std::string& path;
  std::int64_t line;
};

template <class... Args>
[[noreturn]] void fail_at(const Place& place, fmt::format_string<Args...> message, Args&&... args) {
  throw InputError(fmt::format("{}: line {}: {}", place.path, place.line,
                               fmt::format(message, std::forward<Args>(args)...)));
}

// How many bytes of a line that begins with a quote are quoted, both quotes included; 0 where it
// does not. A doubled quote is one within.
std::size_t quoted_length(std::string_view line, const Place& place) {
  if (!line.starts_with('"')) return 0;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] != '"') continue;
    if (!line.substr(i + 1).starts_with('"')) return i + 1;
    ++i;
  }
  fail_at(place, "{}: a quote without the one that ends it", shown(line));
}

// The cells of a line, trimmed. One in quotes may hold commas (RFC 4180); what is within them is
// given as it is written, with a quote of its own doubled.
std::vector<std::string_view> cells_of(std::string_view line, const Place& place) {
  std::vector<std::string_view> cells;
  for (bool more = true; more;) {
    line = trimmed(line);
    const std::size_t quotes = quoted_length(line, place);
    const std::size_t comma = line.find(',', quotes);
    const std::string_view cell = trimmed(line.substr(0, comma));
    if (quotes > 0 && cell.size() != quotes)
      fail_at(place, "{}: a quote within a cell; expected one that ends it, before a comma",
              shown(cell));
    cells.push_back(quotes == 0 ? cell : cell.substr(1, quotes - 2));
    more = comma != std::string_view::npos;
    if (more) line.remove_prefix(comma + 1);
  }
  return cells;
}

// "12", "12:30" or "12:30:15", in seconds.
std::optional<std::int64_t> time_of_day(std::string_view text) {
  constexpr std::int64_t limits[] = {24, 60, 60}, seconds[] = {3600, 60, 1};
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = number<std::int64_t>(parts[i]);
    if (!value || *value < 0 || *value >= limits[i]) return std::nullopt;
    total += *value * seconds[i];
  }
  return total;
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  const std::size_t space = text.find_first_of(" T");
  const std::vector<std::string_view> parts = split(text.substr(0, space), '-');
  if (parts.size() != 3) return std::nullopt;
  const auto year = number<int>(parts[0]);
  const auto month = number<unsigned>(parts[1]), day = number<unsigned>(parts[2]);
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  const auto time = space == std::string_view::npos ? std::optional<std::int64_t>(0)
                                                    : time_of_day(text.substr(space + 1));
  if (*year < 1 || *year > 9999 || !date.ok() || !time) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * day_s + *time;
}

float cell(std::string_view text, const Place& place, const std::string& column) {
  const std::optional<float> value = parse_float(text.starts_with('+') ? text.substr(1) : text);
  if (value) return *value;
  if (text.empty())
    fail_at(place, "column {}: a gap; give a number here, or leave the column or the row out",
            shown(column));
  fail_at(place, "column {}: \"{}\" is not a number of float32", shown(column), shown(text));
}

std::int64_t row_time(std::string_view text, const Place& place, const std::string& column) {
  if (const std::optional<std::int64_t> time = parse_time(text)) return *time;
  fail_at(place, "column {}: \"{}\" is no date or time; expected 2016-07-31 or 2016-07-31 12:00:00",
          shown(column), shown(text));
}

void check_order(const std::vector<std::int64_t>& times, const Place& place, bool gaps) {
  if (times.size() < 2) return;
  const std::int64_t last = times[times.size() - 2], step = times[1] - times[0];
  if (times.back() <= last)
    fail_at(place, "{} is not after the line before, {}", time_text(times.back()), time_text(last));
  if (gaps || times.back() - last == step) return;
  const std::string fact = fmt::format("{}: line {}: expected {}, found {}", place.path, place.line,
                                       time_text(last + step), time_text(times.back()));
  expect_input((times.back() - last) % step == 0, "{}", fact);
  throw OptionError("gaps", fact + "; fill in what is missing, or put the rows in order");
}

void check_names(const SeriesTable& table) {
  expect_input(!std::ranges::all_of(table.names,
                                    [](const auto& name) { return parse_float(name).has_value(); }),
               "{}: line 1: expected the names of the columns, found numbers; put a header above",
               table.path);
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : table.names) {
    expect_input(!name.empty(), "{}: line 1: column {} has no name", table.path, seen.size() + 2);
    expect_input(seen.insert(name).second, "{}: line 1: two columns named {}", table.path,
                 shown(name));
  }
}

// A name without the doubling of quotes within it.
std::string unquoted(std::string_view cell) {
  std::string name;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    name += cell[i];
    if (cell.substr(i).starts_with("\"\"")) ++i;
  }
  return name;
}

// The columns' names, that of the times first.
std::vector<std::string> read_header(std::string_view line, const Place& place) {
  std::vector<std::string> names;
  for (const std::string_view cell : cells_of(line, place)) names.push_back(unquoted(cell));
  if (names.size() < 2)
    fail_at(place, "expected a date and at least one series, separated by commas, found \"{}\"",
            shown(line));
  return names;
}

}  // namespace

SeriesTable load_series(const std::string& path, const SeriesOptions& options) {
  const std::string content = read_text(path);
  std::string_view rest = content;
  rest = rest.substr(0, rest.find_last_not_of(" \t\r\n\v\f") + 1);
  Place place{path, 1};
  const auto header = next_line(rest);
  expect_input(header.has_value(), "{}: the file is empty; give a CSV with a header", path);
  std::vector<std::string> names = read_header(*header, place);
  const std::string time_column = names.front();
  const std::size_t width = names.size();
  names.erase(names.begin());
  SeriesTable table{.path = path, .names = std::move(names)};
  check_names(table);
  std::vector<float> values;
  while (const auto line = next_line(rest)) {
    ++place.line;
    if (trimmed(*line).empty()) fail_at(place, "an empty line");
    const std::vector<std::string_view> cells = cells_of(*line, place);
    if (cells.size() != width)
      fail_at(place, "{} columns, expected {} as in the header", cells.size(), width);
    table.times.push_back(row_time(cells[0], place, time_column));
    check_order(table.times, place, options.gaps);
    for (std::size_t j = 1; j < width; ++j)
      values.push_back(cell(cells[j], place, table.names[j - 1]));
  }
  const std::int64_t rows = std::ssize(table.times);
  expect_input(rows >= 2, "{}: {} rows of numbers; expected at least 2", path, rows);
  table.values = Array::of(values, {rows, std::ssize(table.names)});
  return table;
}

}  // namespace tapestry
