#include "data/series/clock.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "autograd/check.hpp"
#include "data/option_error.hpp"
#include "data/series/step.hpp"
#include "data/table/label_column.hpp"

namespace tapestry {
namespace {

// Returns the words of a name, in lower case: "unix_timestamp" and "UnixTimestamp" have two.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  bool was_small = false;
  for (const char character : name) {
    const auto c = static_cast<unsigned char>(character);
    if ((std::isupper(c) && was_small) || !std::isalnum(c)) words.emplace_back();
    if (std::isalnum(c)) words.back() += static_cast<char>(std::tolower(c));
    was_small = std::islower(c);
  }
  std::erase(words, "");
  return words;
}

bool is_time_name(const std::string& name) {
  constexpr std::string_view times[] = {"date", "time", "datetime", "timestamp", "ts", "epoch"};
  return std::ranges::any_of(words_of(name), [&](const std::string& word) {
    return std::ranges::find(times, word) != std::end(times);
  });
}

bool is_year_name(const std::string& name) {
  return words_of(name) == std::vector<std::string>{"year"};
}

// The parts of a time in columns of their own, in this order.
struct Part {
  std::array<std::string_view, 5> names;
  double low, high;
};
constexpr Part parts[] = {{{"year", "yr", "yyyy", "yy"}, 1800, 2200},
                          {{"month", "mo", "mon", "mm"}, 1, 12},
                          {{"day", "dy", "dd"}, 1, 31},
                          {{"hour", "hr", "hh", "he", "hour ending"}, 0, 24},
                          {{"minute", "mn", "mm"}, 0, 59}};

bool is_named_as(const Part& part, const std::string& name) {
  return !name.empty() &&
         std::ranges::count(part.names, fmt::format("{}", fmt::join(words_of(name), " "))) > 0;
}

// Returns the rows of each series, in file order; all of them without columns that name series.
std::vector<std::vector<std::int64_t>> rows_by_series(const Table& table,
                                                      const std::vector<std::int64_t>& series) {
  std::map<std::string, std::vector<std::int64_t>> rows;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::string name;
    for (const std::int64_t column : series) name += table.text(row, column) + '\n';
    rows[name].push_back(row);
  }
  std::vector<std::vector<std::int64_t>> all;
  for (auto& [name, of_series] : rows) all.push_back(std::move(of_series));
  return all;
}

// Returns whether the times of a clock ascend with one step in 95 % of the rows.
bool is_regular(const Table& table, const Clock& clock, const std::vector<std::int64_t>& series) {
  std::int64_t regular = 0, rows = 0;
  for (const std::vector<std::int64_t>& of_series : rows_by_series(table, series)) {
    std::vector<std::int64_t> times;
    for (const std::int64_t row : of_series) times.push_back(clock.time(table, row).utc_us());
    const auto distances = std::ssize(times) - 1;
    regular += std::llround(regularity(times) * static_cast<double>(distances));
    rows += distances;
  }
  return rows > 0 && regular * 100 >= rows * 95;
}

// Returns the first row of a column that is no time in a format.
std::int64_t first_row_without(const TimeFormat& format, const Table& table, std::int64_t column) {
  for (std::int64_t row = 0; row < table.rows(); ++row)
    if (!table.is_missing(row, column) && !format.parse(table.raw(row, column))) return row;
  return 0;
}

// Returns the format of a column of texts that are times.
TimeFormat format_of(const Table& table, std::int64_t number,
                     const std::vector<std::int64_t>& series) {
  const TableColumn& column = table.columns()[number];
  if (column.formats.empty()) {
    std::int64_t row = 0;
    while (table.is_missing(row, number)) ++row;
    const std::vector<TimeFormat> of_first = time_formats_of(table.raw(row, number));
    if (of_first.empty() && row == 0)
      throw InputError(
          fmt::format("{}: \"{}\" is no time as those below it; remove this row, if it has units",
                      table.place(row, number), shown(table.raw(row, number))));
    expect_option(!of_first.empty(), "time_column", "{}: \"{}\" is not a date or time",
                  table.place(row, number), shown(table.raw(row, number)));
    const std::int64_t other = first_row_without(of_first.front(), table, number);
    expect_input(!time_formats_of(table.raw(other, number)).empty(),
                 "{}: \"{}\" is not a time, as \"{}\" is; correct it, or remove the row",
                 table.place(other, number), shown(table.raw(other, number)),
                 shown(table.raw(row, number)));
    throw InputError(fmt::format(
        "{}: column {}: line {} is a time in the format {}, line {} is not; write all times in one "
        "format",
        table.path(), shown(column.name), table.line(row).number, of_first.front().text(),
        table.line(other).number));
  }
  if (column.formats.size() == 1) return column.formats.front();
  std::vector<TimeFormat> regular;
  for (const TimeFormat& format : column.formats)
    if (is_regular(table, {Clock::Form::times, {number}, format}, series))
      regular.push_back(format);
  if (regular.size() == 1) return regular.front();
  throw_undecided_format(table, number);
}

// Returns the format in which a column of numbers gives times, if their contents show it; of a
// column that `is_given` as that of the times, or has such a name, whatever its steps.
std::optional<TimeFormat> format_of_numbers(const Table& table, std::int64_t number,
                                            const std::vector<std::int64_t>& series,
                                            bool is_given = false) {
  const TableColumn& column = table.columns()[number];
  if (column.kind != ColumnKind::numbers || column.missing() > 0) return std::nullopt;
  double least = 1e300, most = -1e300;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (!number_in(table.raw(row, number), table.options())) return std::nullopt;
    const double value = *table.number(row, number);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const bool is_first = number == 0, is_named = is_given || is_time_name(column.name);
  const auto within = [&](double low, double high) { return least >= low && most < high; };
  std::vector<const char*> formats;
  if (column.counts.are_integers) {
    if (within(18e12, 2201e10)) formats.push_back("%Y%m%d%H%M%S");
    if (within(18e10, 2201e8)) formats.push_back("%Y%m%d%H%M");
    if (within(18e8, 2201e6)) formats.push_back("%Y%m%d%H");
    if (within(18'000'101, 22'001'232)) formats.push_back("%Y%m%d");
    if (within(180'001, 220'013)) formats.push_back("%Y%m");
    if (is_year_name(column.name) ? within(1000, 2201) : is_first && within(1800, 2201))
      formats.push_back("%Y");
    if (within(1e8, 7.26e9)) formats.push_back("unix");
    if (within(1e11, 7.26e12)) formats.push_back("unix-ms");
    if (within(1e14, 7.26e15)) formats.push_back("unix-us");
    if (within(1e17, 7.26e18)) formats.push_back("unix-ns");
  }
  if (is_named && within(1e8, 7.26e9)) formats.push_back("unix");  // with fractions
  if ((is_first || is_named) && within(20'000, 80'000)) formats.push_back("excel");
  for (const char* name : formats) {
    const TimeFormat format(name);
    bool are_times = true;
    for (std::int64_t row = 0; are_times && row < table.rows(); ++row)
      are_times = format.parse(table.raw(row, number)).has_value();
    const bool is_sure =
        is_given || (is_named && std::string_view(name) != "excel") || is_year_name(column.name);
    if (are_times && (is_sure || is_regular(table, {Clock::Form::times, {number}, format}, series)))
      return format;
  }
  return std::nullopt;
}

bool is_in(const std::vector<std::int64_t>& columns, std::int64_t column) {
  return std::ranges::find(columns, column) != columns.end();
}

// Returns whether all cells of a column are integers in a range.
bool are_within(const Table& table, std::int64_t column, double low, double high) {
  const TableColumn& one = table.columns()[column];
  if (one.kind != ColumnKind::numbers || one.missing() > 0 || !one.counts.are_integers)
    return false;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const double value = table.number(row, column).value_or(low - 1);
    if (value < low || value > high) return false;
  }
  return true;
}

// Returns the columns with the parts of a time, from the year on, if their numbers are in range.
std::vector<std::int64_t> columns_of_parts(const Table& table) {
  std::vector<std::int64_t> found;
  for (const Part& part : parts) {
    std::optional<std::int64_t> match;
    for (std::int64_t column = 0; column < std::ssize(table.columns()) && !match; ++column)
      if (is_named_as(part, table.columns()[column].name) && !is_in(found, column) &&
          are_within(table, column, part.low, part.high))
        match = column;
    if (!match) break;
    found.push_back(*match);
  }
  return found.size() >= 2 ? found : std::vector<std::int64_t>{};
}

// Returns the only column of whole hours of a day, so named; nothing if there is none.
std::optional<std::int64_t> column_of_hours(const Table& table,
                                            const std::vector<std::int64_t>& series) {
  std::optional<std::int64_t> found;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    if (is_in(series, column) || !is_named_as(parts[3], table.columns()[column].name) ||
        !are_within(table, column, 0, 24))
      continue;
    if (found) return std::nullopt;
    found = column;
  }
  return found;
}

// Returns the clocks that texts show.
std::vector<Clock> clocks_of_texts(const Table& table, const std::vector<std::int64_t>& series) {
  std::vector<std::int64_t> times, of_day;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    if (is_in(series, column)) continue;
    const ColumnKind kind = table.columns()[column].kind;
    if (kind == ColumnKind::times) times.push_back(column);
    if (kind == ColumnKind::times_of_day) of_day.push_back(column);
  }
  std::vector<Clock> clocks;
  for (const std::int64_t column : times) {
    const std::vector<TimeFormat>& formats = table.columns()[column].formats;
    const bool is_date = std::ranges::none_of(formats, [&](const TimeFormat& format) {
      return table.raw(0, column).find(':') != std::string_view::npos && format.has_time_of_day();
    });
    Clock clock{Clock::Form::times, {column}};
    if (is_date && of_day.size() == 1)
      clock = {Clock::Form::date_and_time, {column, of_day.front()}};
    else if (const auto hours = column_of_hours(table, series); is_date && of_day.empty() && hours)
      clock = {Clock::Form::date_and_time, {column, *hours}};
    clocks.push_back(std::move(clock));
  }
  return clocks;
}

// Throws OptionError if the numbers of the first column may be times without one step: days as
// 20200131 that recur, or seconds since 1970 (or parts of them) that ascend.
void expect_no_ragged_times(const Table& table, const std::vector<std::int64_t>& series) {
  const TableColumn& first = table.columns()[0];
  if (first.kind != ColumnKind::numbers || first.missing() > 0 || is_in(series, 0)) return;
  bool ascends = true, strictly = true, are_days = true;
  const TimeFormat days("%Y%m%d");
  double least = 0, before = 0;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const double value = table.number(row, 0).value_or(0);
    if (row == 0) least = value;
    ascends &= row == 0 || value >= before;
    strictly &= row == 0 || value > before;
    are_days &= days.parse(table.raw(row, 0)).has_value();
    before = value;
  }
  const bool are_seconds = std::ranges::any_of(std::array{1.0, 1e3, 1e6, 1e9}, [&](double unit) {
    return strictly && least >= 1e8 * unit && before < 7.26e9 * unit;
  });
  expect_option(!(ascends && are_days) && !are_seconds, "time_column",
                "{}: column {}: {} to {} may be times, or numbers", table.path(), shown(first.name),
                shown(table.raw(0, 0)), shown(table.raw(table.rows() - 1, 0)));
}

// Returns whether a text is a time of day with the name of a zone behind it, such as CET.
bool ends_with_zone(std::string_view text) {
  const std::size_t end = std::min(text.rfind(' '), text.size());
  const std::string_view zone = text.substr(std::min(end + 1, text.size()));
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  return zone.size() >= 3 && zone.size() <= 5 && std::ranges::all_of(zone, is_capital) &&
         text.find(':') < end && !time_formats_of(text.substr(0, end)).empty();
}

// Throws OptionError for a column of texts with times that cannot be read, as `example` cannot or,
// if others of its cells can, with the first that cannot.
[[noreturn]] void refuse_times(const Table& table, std::int64_t column, std::string_view example) {
  std::int64_t unread = -1, read = -1;  // the first rows
  for (std::int64_t row = 0; row < table.rows() && (unread < 0 || read < 0); ++row)
    if (std::int64_t& first = time_formats_of(table.raw(row, column)).empty() ? unread : read;
        first < 0)
      first = row;
  if (read >= 0 && unread >= 0)
    throw OptionError(
        "time_column",
        fmt::format("{}: \"{}\" is not a time, as \"{}\" is", table.place(unread, column),
                    shown(table.raw(unread, column)), shown(table.raw(read, column))));
  throw OptionError(
      "time_column",
      fmt::format(
          "{}: column {}: \"{}\" may be a time, in a format that is not known{}", table.path(),
          shown(table.columns()[column].name), shown(example),
          ends_with_zone(example) ? "; write an offset, as +01:00, for the name of a zone" : ""));
}

// Returns whether eight tenths of the cells of a column are times of one format, each later than
// the one before: rows of totals are between them.
bool has_ascending_times(const Table& table, std::int64_t column) {
  const auto formats = time_formats_of(table.raw(0, column));
  std::optional<Moment> last;
  std::int64_t times = 0;
  for (std::int64_t row = 0; row < table.rows() && !formats.empty(); ++row) {
    const auto time = formats.front().parse(table.raw(row, column));
    if (!time) continue;
    if (last && time->utc_us() <= last->utc_us()) return false;
    last = time;
    ++times;
  }
  return times >= 2 && 10 * times >= 8 * table.rows();
}

// Throws OptionError if a column of texts may have times of an unknown format: it is so named, most
// of its cells are ascending times, or each of its texts is another one with the digits of a year.
void expect_no_unknown_times(const Table& table, const std::vector<std::int64_t>& series) {
  constexpr int digits_of_year = 4;
  const bool is_labeled = std::ranges::any_of(table.names(), is_label_name);
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    const TableColumn& one = table.columns()[column];
    if (one.kind != ColumnKind::texts || is_in(series, column)) continue;
    const auto digits_in = [](std::string_view cell) {
      return std::ranges::count_if(cell, [](unsigned char c) { return std::isdigit(c); });
    };
    if (const auto number = table.first_text_with_number(column);
        number && !is_time_name(one.name)) {
      const std::string_view cell = table.raw(*number, column);  // "1900 AD", or "12.5 km"
      const auto digits = digits_in(cell);
      if (cell.find_first_of(",.") != cell.npos || (digits != 4 && digits != 6 && digits != 8))
        continue;
    }
    std::set<std::string_view> different;
    for (std::int64_t row = 0; row < table.rows(); ++row)
      if (const std::string_view cell = table.raw(row, column); digits_in(cell) >= digits_of_year)
        different.insert(cell);
    const bool may_be_times = std::ssize(different) == table.rows() ||
                              (column == 0 && !is_labeled && has_ascending_times(table, column)) ||
                              (is_time_name(one.name) && !different.empty());
    if (may_be_times)
      refuse_times(table, column, different.empty() ? table.raw(0, column) : *different.begin());
  }
}

// Returns the clock that the numbers of columns show.
Clock clock_of_numbers(const Table& table, const std::vector<std::int64_t>& series) {
  if (const auto parts = columns_of_parts(table); !parts.empty())
    return {Clock::Form::parts, parts};
  std::vector<Clock> clocks;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    if (!is_in(series, column))
      if (const auto format = format_of_numbers(table, column, series))
        clocks.push_back({Clock::Form::times, {column}, format});
  if (clocks.empty()) {
    expect_no_ragged_times(table, series);
    expect_no_unknown_times(table, series);
    return {};
  }
  std::vector<std::string> names;
  for (const Clock& clock : clocks) names.push_back(shown(clock.name(table)));
  expect_option(clocks.size() == 1, "time_column", "{}: the columns {} may be the times",
                table.path(), fmt::join(names, " and "));
  return clocks.front();
}

Clock clock_named(const Table& table, const std::string& name) {
  if (name == no_times) return {};
  Clock clock{Clock::Form::times, columns_named(table, name, "time_column")};
  if (clock.columns.size() == 1) return clock;
  const bool has_date =
      table.columns()[clock.columns[0]].kind != ColumnKind::numbers || clock.columns.size() == 2;
  const bool has_month = is_named_as(parts[1], table.columns()[clock.columns[1]].name);
  clock.form = has_date && !has_month ? Clock::Form::date_and_time : Clock::Form::parts;
  return clock;
}

TimeFormat format_named(const std::string& text) {
  try {
    return TimeFormat(text);
  } catch (const std::invalid_argument& error) {
    throw OptionError("time_format", error.what());
  }
}

[[noreturn]] void fail(const Table& table, std::int64_t row, std::int64_t column,
                       const std::string& example) {
  const std::string_view cell = table.raw(row, column);
  expect_input(!cell.empty(), "{}: the cell is empty; expected {}; enter it, or remove the row",
               table.place(row, column), example);
  throw OptionError("time_column", fmt::format("{}: \"{}\" is not a date or time; expected {}",
                                               table.place(row, column), shown(cell), example));
}

}  // namespace

bool Clock::reads(std::int64_t column) const { return is_in(columns, column); }

std::string Clock::name(const Table& table) const {
  if (form == Form::none) return no_times;
  return joined_names(table, columns);
}

Moment Clock::time(const Table& table, std::int64_t row) const {
  if (form == Form::parts) {
    using namespace std::chrono;
    std::array<int, std::size(parts)> values{0, 1, 1, 0, 0};
    for (std::size_t i = 0; i < columns.size(); ++i)
      values[i] = static_cast<int>(table.number(row, columns[i]).value_or(-1));
    const year_month_day date{year(values[0]), month(static_cast<unsigned>(values[1])),
                              day(static_cast<unsigned>(values[2]))};
    if (!date.ok() || values[3] < 0 || values[3] > 24 || values[4] < 0 || values[4] > 59)
      fail(table, row, columns.back(), "a date");
    return {sys_days(date).time_since_epoch().count() * day_us + values[3] * hour_us +
            values[4] * 60 * second_us};
  }
  const auto time = format->parse(table.raw(row, columns[0]));
  if (!time) fail(table, row, columns[0], format->example());
  if (form != Form::date_and_time) return *time;
  if (table.columns()[columns[1]].kind == ColumnKind::numbers) {
    const double hours = table.number(row, columns[1]).value_or(-1);
    if (hours < 0 || hours > 24) fail(table, row, columns[1], "an hour from 0 to 24");
    return {time->us + std::llround(hours * hour_us), time->offset_s};
  }
  const auto of_day = time_of_day(table.raw(row, columns[1]));
  if (!of_day) fail(table, row, columns[1], "12:00 or 12:00:00");
  return {time->us + *of_day, time->offset_s};
}

Clock find_clock(const Table& table, const ClockOptions& options,
                 const std::vector<std::int64_t>& series) {
  Clock clock;
  if (!options.time_column.empty()) {
    clock = clock_named(table, options.time_column);
  } else {
    const std::vector<Clock> clocks = clocks_of_texts(table, series);
    std::vector<std::string> names;
    for (const Clock& one : clocks) names.push_back(shown(one.name(table)));
    expect_option(clocks.size() <= 1, "time_column", "{}: the columns {} may be the times",
                  table.path(), fmt::join(names, " and "));
    clock = clocks.empty() ? clock_of_numbers(table, series) : clocks.front();
  }
  if (clock.form == Clock::Form::none || clock.form == Clock::Form::parts || clock.format)
    return clock;
  const std::int64_t column = clock.columns[0];
  if (options.time_format != "auto")
    clock.format = format_named(options.time_format);
  else if (table.columns()[column].kind != ColumnKind::numbers)
    clock.format = format_of(table, column, series);
  else
    clock.format = format_of_numbers(table, column, series, true);
  expect_option(clock.format.has_value(), "time_format",
                "{}: column {}: \"{}\" is a time in no known format", table.path(),
                shown(table.columns()[column].name), shown(table.raw(0, column)));
  return clock;
}

}  // namespace tapestry
