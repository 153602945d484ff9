#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/option_error.hpp"
#include "data/series/series.hpp"
#include "data/text/text.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t day_s = 86400;

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A CSV's line, without the quotes that may stand around a cell.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells = split(line, ',');
  for (std::string_view& cell : cells)
    if (cell.size() >= 2 && cell.starts_with('"') && cell.ends_with('"'))
      cell = cell.substr(1, cell.size() - 2);
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
void expect_at(bool holds, const Place& place, fmt::format_string<Args...> message,
               Args&&... args) {
  expect_input(holds, "{}: line {}: {}", place.path, place.line,
               fmt::format(message, std::forward<Args>(args)...));
}

float cell(std::string_view text, const Place& place, const std::string& column) {
  expect_at(!text.empty(), place,
            "column {}: a gap; give a number here, or leave the column or the row out", column);
  const std::optional<float> value = number<float>(text.starts_with('+') ? text.substr(1) : text);
  expect_at(value && std::isfinite(*value), place, "column {}: \"{}\" is not a number", column,
            shown(text));
  return *value;
}

std::int64_t row_time(std::string_view text, const Place& place, const std::string& column) {
  const std::optional<std::int64_t> time = parse_time(text);
  expect_at(time.has_value(), place,
            "column {}: \"{}\" is no date or time; expected 2016-07-31 or 2016-07-31 12:00:00",
            column, shown(text));
  return *time;
}

void check_order(const std::vector<std::int64_t>& times, const Place& place, bool gaps) {
  if (times.size() < 2) return;
  const std::int64_t last = times[times.size() - 2], step = times[1] - times[0];
  expect_at(times.back() > last, place, "{} is not after the line before, {}",
            time_text(times.back()), time_text(last));
  if (gaps || times.back() - last == step) return;
  const std::string fact = fmt::format("{}: line {}: expected {}, found {}", place.path, place.line,
                                       time_text(last + step), time_text(times.back()));
  expect_input((times.back() - last) % step == 0, "{}", fact);
  throw OptionError("gaps", fact + "; fill in what is missing, or put the rows in order");
}

void check_names(const SeriesTable& table) {
  expect_input(!std::ranges::all_of(
                   table.names, [](const auto& name) { return number<float>(name).has_value(); }),
               "{}: line 1: expected the names of the columns, found numbers; put a header above",
               table.path);
  for (auto name = table.names.begin(); name != table.names.end(); ++name) {
    expect_input(!name->empty(), "{}: line 1: column {} has no name", table.path,
                 name - table.names.begin() + 2);
    expect_input(std::find(table.names.begin(), name, *name) == name,
                 "{}: line 1: two columns named {}", table.path, printable(*name));
  }
}

std::vector<std::string_view> lines_of(const std::string& content, const std::string& path) {
  std::vector<std::string_view> lines = cut_lines(content);
  while (!lines.empty() && trimmed(lines.back()).empty()) lines.pop_back();
  expect_input(!lines.empty(), "{}: the file is empty; give a CSV with a header", path);
  return lines;
}

// A table with the names that stand in the first line, and no rows yet.
SeriesTable read_header(std::string_view line, const std::string& path) {
  const std::vector<std::string_view> header = cells_of(line);
  expect_input(header.size() >= 2,
               "{}: line 1: expected a date and at least one series, separated by commas, found "
               "\"{}\"",
               path, shown(line));
  SeriesTable table{.path = path, .names = {header.begin() + 1, header.end()}};
  check_names(table);
  return table;
}

SeriesTable read_csv(const std::string& path, const SeriesOptions& options) {
  const std::string content = read_text(path);
  const std::vector<std::string_view> lines = lines_of(content, path);
  SeriesTable table = read_header(lines.front(), path);
  const std::string time_column(cells_of(lines.front()).front());
  const std::size_t width = table.names.size() + 1;
  std::vector<float> values;
  values.reserve(lines.size() * (width - 1));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Place place{path, static_cast<std::int64_t>(i) + 1};
    expect_at(!trimmed(lines[i]).empty(), place, "an empty line");
    const std::vector<std::string_view> cells = cells_of(lines[i]);
    expect_at(cells.size() == width, place, "{} columns, expected {} as in the header",
              cells.size(), width);
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

const RegisterFormat registered(series_formats(), "csv", {.help = "a CSV", .read = read_csv});

}  // namespace
}  // namespace tapestry
