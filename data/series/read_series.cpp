#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/memory_folder.hpp"
#include "data/option_error.hpp"
#include "data/series/clock.hpp"
#include "data/series/series.hpp"
#include "data/table/label_column.hpp"

namespace tapestry {
namespace {

// A row of the file, as one of its series has it.
struct Reading {
  std::int64_t row = 0;       // of the table
  std::int64_t clock_us = 0;  // time on one clock, which knows no daylight saving
  std::int64_t position = 0;  // number of steps since the first row of all series
  Moment time{};              // as written
};

// The readings of a series, in the order of their times.
struct OneSeries {
  std::string name{};
  std::vector<Reading> readings{};
};

// The columns of a table, by their use.
struct Uses {
  std::vector<std::int64_t> series{}, values{};
  Clock clock{};
};

bool contains(const std::vector<std::int64_t>& all, std::int64_t one) {
  return std::ranges::find(all, one) != all.end();
}

// --- which column is what ---

// Returns whether no two rows have the same time and the same series.
bool tells_rows_apart(const Table& table, const Clock& clock,
                      const std::vector<std::int64_t>& series) {
  std::set<std::pair<std::int64_t, std::string>> seen;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::string name;
    for (const std::int64_t column : series) name += table.text(row, column) + '\n';
    if (!seen.emplace(clock.time(table, row).utc_us(), name).second) return false;
  }
  return true;
}

// Returns whether the times neither ascend nor descend in the order of the file.
bool turns_back(const Table& table, const Clock& clock) {
  bool ascends = false, descends = false;
  for (std::int64_t row = 1; row < table.rows(); ++row) {
    const auto before = clock.time(table, row - 1).utc_us(), now = clock.time(table, row).utc_us();
    ascends |= now > before;
    descends |= now < before;
  }
  return ascends && descends;
}

// Returns whether the times of the rows with the same cell in a column ascend.
bool ascends_within(const Table& table, const Clock& clock, std::int64_t column) {
  std::map<std::string_view, std::int64_t> last;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const std::int64_t now = clock.time(table, row).utc_us();
    const auto [at, is_first] = last.emplace(table.raw(row, column), now);
    if (!is_first && at->second >= now) return false;
    at->second = now;
  }
  return true;
}

// Throws OptionError if a column beside dates counts the hours, half hours or minutes of a day.
void expect_no_periods(const Table& table, const Clock& clock, std::int64_t column) {
  if (table.columns()[column].kind != ColumnKind::numbers) return;
  std::set<double> numbers;
  bool are_dates = true;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    numbers.insert(table.number(row, column).value_or(-1));
    are_dates &= clock.time(table, row).us % day_us == 0;
  }
  constexpr std::int64_t parts_of_day[] = {24, 48, 96, 288, 1440};
  const auto count = std::ssize(numbers);
  const double first = *numbers.begin(), last = *numbers.rbegin();
  const bool are_counted = (first == 0 || first == 1) &&
                           last - first == static_cast<double>(count - 1) &&
                           std::ranges::find(parts_of_day, count) != std::end(parts_of_day);
  expect_option(!are_dates || !are_counted, "series_column",
                "{}: column {}: {} to {} may be parts of a day, or names of series", table.path(),
                shown(table.columns()[column].name), first, last);
}

// Returns whether the name of a column is a time: a year, a month or a date.
bool is_time_as_name(const std::string& name) {
  const auto year = parse_number<std::int64_t>(name);
  return (year && *year >= 1800 && *year < 2200) || !time_formats_of(name).empty() ||
         TimeFormat("%b-%Y").parse(name + "-2000") || TimeFormat("%B-%Y").parse(name + "-2000");
}

// Throws InputError if the columns stand for times, and the rows for series.
void expect_rows_of_times(const Table& table, const std::vector<std::int64_t>& values) {
  std::vector<std::string> times;
  for (const std::int64_t column : values)
    if (const std::string& name = table.columns()[column].name; is_time_as_name(name))
      times.push_back(name);
  constexpr std::int64_t least = 3;
  expect_input(std::ssize(times) < least || 2 * times.size() <= values.size(),
               "{}: {} columns are times, such as {}; transpose the table to a row for each time",
               table.path(), times.size(), times.empty() ? "" : shown(times.front()));
}

// Returns the columns of a table in long form that name the series of a row: times recur in it, and
// with these columns no row does. None, if times do not recur, or a repeated reading is the reason.
std::vector<std::int64_t> find_series_columns(const Table& table, const Clock& clock) {
  if (clock.form == Clock::Form::none) return {};
  std::set<std::int64_t> times;
  for (std::int64_t row = 0; row < table.rows(); ++row)
    times.insert(clock.time(table, row).utc_us());
  // An hour that stands twice, or a reading repeated, is no panel; series one below the other are.
  const bool recur = std::ssize(times) * 10 < table.rows() * 9;
  if (!recur && !turns_back(table, clock)) return {};
  std::vector<std::int64_t> candidates;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    const TableColumn& one = table.columns()[column];
    const bool may_name = one.kind == ColumnKind::texts ||
                          (one.kind == ColumnKind::numbers && one.counts.are_integers);
    if (clock.reads(column) || !may_name || one.missing() > 0) continue;
    const auto count = static_cast<std::int64_t>(
        different_cells(table, column, static_cast<std::size_t>(table.rows())));
    if (count >= 2 && count * 2 <= table.rows()) candidates.push_back(column);
  }
  std::ranges::stable_sort(candidates, {}, [&](std::int64_t column) {
    return table.columns()[column].kind != ColumnKind::texts;
  });
  if (!recur) {
    for (const std::int64_t column : candidates)
      if (table.columns()[column].kind == ColumnKind::texts && ascends_within(table, clock, column))
        return {column};
    return {};
  }
  for (const std::int64_t column : candidates)
    if (tells_rows_apart(table, clock, {column})) {
      expect_no_periods(table, clock, column);
      return {column};
    }
  for (const std::int64_t a : candidates)
    for (const std::int64_t b : candidates)
      if (a < b && tells_rows_apart(table, clock, {a, b})) return {a, b};
  throw OptionError("series_column",
                    fmt::format("{}: {} have {} different times, and no column names the series of "
                                "each row",
                                table.path(), counted(table.rows(), "row"), times.size()));
}

// Returns the columns of numbers that are not used otherwise.
std::vector<std::int64_t> find_values(const Table& table, const Uses& uses) {
  std::vector<std::int64_t> values, indices;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    if (table.columns()[column].kind == ColumnKind::numbers && !uses.clock.reads(column) &&
        !contains(uses.series, column))
      (is_row_index(table, column) ? indices : values).push_back(column);
  return values.empty() ? indices : values;
}

// Throws InputError for a column of texts that may be meant as numbers.
void expect_no_texts_with_numbers(const Table& table, const Uses& uses) {
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    if (const auto row = table.first_text_with_number(column); row && !uses.clock.reads(column))
      throw InputError(
          fmt::format("{}: {}", table.place(*row, column), read_as_text(table.raw(*row, column))));
}

// Returns the columns that are series by rules 1: all that are not used otherwise.
std::vector<std::int64_t> all_others(const Table& table, const Uses& uses) {
  std::vector<std::int64_t> values;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    if (!uses.clock.reads(column) && !contains(uses.series, column) &&
        table.columns()[column].name != index_column)
      values.push_back(column);
  return values;
}

// Returns the options of a table; by rules 1 it has a header, and numbers have no thousands mark.
TableOptions table_options(const SeriesOptions& options) {
  TableOptions of_table = options;
  if (options.rules > 1) return of_table;
  of_table.header = Header::present;
  of_table.thousands = no_mark;
  return of_table;
}

Uses uses_of(const Table& table, const SeriesOptions& options) {
  Uses uses;
  if (!options.series_column.empty())
    uses.series = columns_named(table, options.series_column, "series_column");
  uses.clock = find_clock(table, {options.time_column, options.time_format}, uses.series);
  if (options.series_column.empty() && options.rules > 1) try {
      uses.series = find_series_columns(table, uses.clock);
    } catch (const OptionError&) {
      // Years and dates as numbers, which recur beside a label, describe the rows.
      const std::vector<std::string> names = table.names();
      if (!options.time_column.empty() || !std::ranges::any_of(names, is_label_name) ||
          table.columns()[uses.clock.columns[0]].kind != ColumnKind::numbers)
        throw;
      uses.clock = {};
    }
  for (const std::string& name : options.columns)
    uses.values.push_back(table.column_named(name, "columns"));
  if (options.columns.empty()) {
    uses.values = options.rules > 1 ? find_values(table, uses) : all_others(table, uses);
    if (options.rules > 1) expect_rows_of_times(table, uses.values);
  }
  if (uses.values.empty()) expect_no_texts_with_numbers(table, uses);
  expect_input(!uses.values.empty(),
               "{}: no column has numbers; expected a time and at least one series, found the "
               "columns {}",
               table.path(), list_briefly(table.names()));
  std::set<std::string> seen;
  for (const std::int64_t column : uses.values) {
    table.expect_one_unit(column);
    expect_input(seen.insert(table.columns()[column].name).second,
                 "{}: two columns are named {}; rename one of them", table.path(),
                 shown(table.columns()[column].name));
  }
  return uses;
}

// --- the order of the rows ---

// Returns the readings of each series by name, in file order.
std::vector<OneSeries> series_of(const Table& table, const Uses& uses) {
  std::map<std::string, OneSeries> by_name;
  const bool has_offset =
      uses.clock.form != Clock::Form::none && uses.clock.time(table, 0).offset_s.has_value();
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::string name;
    for (const std::int64_t column : uses.series)
      name += (name.empty() ? "" : " / ") + table.text(row, column);
    OneSeries& series = by_name[name];
    series.name = name;
    Reading reading{.row = row, .clock_us = std::ssize(series.readings)};
    if (uses.clock.form != Clock::Form::none) {
      reading.time = uses.clock.time(table, row);
      expect_option(reading.time.offset_s.has_value() == has_offset, "time_column",
                    "{}: line {}: the time has {} offset from UTC, unlike that of line {}",
                    table.path(), table.line(row).number, has_offset ? "no" : "an",
                    table.line(0).number);
      reading.clock_us = reading.time.utc_us();
    } else {
      reading.time.us = reading.clock_us;
    }
    series.readings.push_back(reading);
  }
  std::vector<OneSeries> all;
  for (auto& [name, series] : by_name) all.push_back(std::move(series));
  return all;
}

// Returns whether times without offset are those of a changed clock: it goes back or forth by an
// hour in the first hours of a day, in spring and in autumn in turn.
bool may_be_change(const Moment& before, const Moment& after) {
  constexpr std::int64_t latest = 4 * hour_us;
  const std::int64_t of_day = (after.us % day_us + day_us) % day_us;
  return !before.offset_s && !after.offset_s && of_day <= latest;
}

// Returns whether clocks are changed on such days: in March, April, September, October and
// November; a single change on a Sunday.
bool is_day_of_change(std::int64_t us, bool is_single) {
  using namespace std::chrono;
  const sys_days day = floor<days>(sys_time<microseconds>(microseconds(us)));
  const auto month = static_cast<unsigned>(year_month_day(day).month());
  return (!is_single || weekday(day) == Sunday) &&
         (month == 3 || month == 4 || (month >= 9 && month <= 11));
}

// Moves the clock by an hour where daylight saving begins or ends. Returns how often it did; 0, and
// changes nothing, if the times have other disorder.
std::int64_t follow_clock(std::vector<Reading>& readings) {
  std::vector<std::int64_t> apart;
  for (std::size_t i = 1; i < readings.size(); ++i)
    apart.push_back(readings[i].clock_us - readings[i - 1].clock_us);
  if (apart.size() < 48) return 0;
  std::vector<std::int64_t> sorted = apart;
  std::ranges::nth_element(sorted, sorted.begin() + std::ssize(sorted) / 2);
  const std::int64_t step = sorted[sorted.size() / 2];
  if (step <= 0 || step > hour_us || hour_us % step != 0) return 0;
  std::vector<std::pair<std::size_t, std::int64_t>> changes;  // row, shift from there on
  for (std::size_t i = 0; i < apart.size(); ++i) {
    const bool back = apart[i] == step - hour_us, forth = apart[i] == step + hour_us;
    if (apart[i] < 0 && !back) return 0;
    if (!(back || forth) || !may_be_change(readings[i].time, readings[i + 1].time)) {
      if (apart[i] < 0) return 0;
      continue;
    }
    const std::int64_t shift = back ? hour_us : -hour_us;
    // One after the other, months apart; else an hour is missing or stands twice for another
    // reason.
    constexpr std::int64_t least_us = 120 * day_us;
    if (!changes.empty()) {
      const auto& [last, last_shift] = changes.back();
      if (last_shift == shift || readings[i].clock_us - readings[last].clock_us < least_us)
        return 0;
    }
    changes.emplace_back(i + 1, shift);
  }
  if (!std::ranges::all_of(changes, [&](const auto& change) {
        return is_day_of_change(readings[change.first].time.us, changes.size() == 1);
      }))
    return 0;
  std::int64_t shift = 0;
  for (std::size_t c = 0; c < changes.size(); ++c) {
    shift += changes[c].second;
    const std::size_t end = c + 1 < changes.size() ? changes[c + 1].first : readings.size();
    for (std::size_t i = changes[c].first; i < end; ++i) readings[i].clock_us += shift;
  }
  return std::ssize(changes);
}

// Puts the readings in the order of their times, and counts in `table` what was found.
void put_in_order(std::vector<Reading>& readings, SeriesTable& table) {
  if (std::ranges::is_sorted(readings, std::ranges::greater(), &Reading::clock_us) &&
      readings.front().clock_us > readings.back().clock_us) {
    std::ranges::reverse(readings);
    table.was_reversed = true;
  }
  const std::int64_t changes = follow_clock(readings);
  table.clock_changes += changes;
  if (changes == 0) std::ranges::stable_sort(readings, {}, &Reading::clock_us);
}

// --- steps ---

std::vector<std::int64_t> clock_of(const std::vector<Reading>& readings, bool on_wall) {
  std::vector<std::int64_t> times;
  for (const Reading& reading : readings)
    times.push_back(on_wall ? reading.time.us : reading.clock_us);
  return times;
}

// Returns the step of a series. Days and months are those of the clock on the wall.
TimeStep step_of(std::vector<Reading>& readings) {
  const TimeStep on_wall = tapestry::step_of(clock_of(readings, true));
  const bool has_days =
      on_wall && (on_wall.unit != TimeStep::Unit::microseconds || on_wall.count % day_us == 0);
  if (!has_days) return tapestry::step_of(clock_of(readings, false));
  for (Reading& reading : readings) reading.clock_us = reading.time.us;
  return on_wall;
}

// Returns the step that the series have in common; none, if they have none.
TimeStep common_step(std::vector<OneSeries>& series, const SeriesTable& table) {
  std::optional<TimeStep> step;
  std::string of;
  for (OneSeries& one : series) {
    if (one.readings.size() < 3 && series.size() > 1) continue;
    const TimeStep own = step_of(one.readings);
    if (step && *step != own && series.size() > 1)
      throw InputError(fmt::format(
          "{}: the series {} and {} have different steps, {:.6g} and {:.6g} s; divide the file, or "
          "list the series of one step",
          table.path, shown(of), shown(one.name), step->seconds(), own.seconds()));
    if (!step) of = one.name;
    step = own;
  }
  return step.value_or(TimeStep{});
}

// Sets the positions by the step. A second reading at one position is left out.
void count_steps(OneSeries& series, const TimeStep& step, std::int64_t origin_us,
                 SeriesTable& table) {
  std::vector<Reading> kept;
  for (Reading& reading : series.readings) {
    const std::int64_t since =
        kept.empty() ? step.between(origin_us, reading.clock_us)
                     : kept.back().position + step.between(kept.back().clock_us, reading.clock_us);
    if (!kept.empty() && since <= kept.back().position) {
      ++table.repeated_rows;
      continue;
    }
    reading.position = since;
    kept.push_back(reading);
  }
  series.readings = std::move(kept);
}

// Sets the positions of rows without a step: the order of their times, or of the file.
void count_rows(std::vector<OneSeries>& series, SeriesTable& table) {
  std::map<std::int64_t, std::int64_t> positions;
  for (const OneSeries& one : series)
    for (const Reading& reading : one.readings) positions[reading.clock_us] = 0;
  std::int64_t next = 0;
  for (auto& [clock_us, position] : positions) position = next++;
  for (OneSeries& one : series) {
    for (Reading& reading : one.readings) reading.position = positions[reading.clock_us];
    const auto repeated =
        std::ranges::unique(one.readings, std::ranges::equal_to(), &Reading::position);
    table.repeated_rows += std::ssize(repeated);
    one.readings.erase(repeated.begin(), repeated.end());
  }
}

std::int64_t rows_of(const std::vector<OneSeries>& series) {
  std::int64_t rows = 0;
  for (const OneSeries& one : series) rows = std::max(rows, one.readings.back().position + 1);
  return rows;
}

// Sets the times of all rows: those that were read, and by the step those between them.
void set_times(SeriesTable& table, const std::vector<OneSeries>& series, std::int64_t rows) {
  std::vector<std::optional<Reading>> read(static_cast<std::size_t>(rows));
  for (const OneSeries& one : series)
    for (const Reading& reading : one.readings)
      if (!read[reading.position]) read[reading.position] = reading;
  Reading before = *read.front();
  for (const auto& reading : read) {
    if (reading) {
      before = *reading;
      table.times.push_back(reading->time);
      continue;
    }
    ++table.inserted_rows;
    const auto steps = std::ssize(table.times) - before.position;
    const std::int64_t clock_us = table.step.after(before.clock_us, steps);
    table.times.push_back({before.time.us + clock_us - before.clock_us, before.time.offset_s});
  }
  // Readings that come a little late or early do not move the forecasts' times; those that drift
  // do.
  table.next_us = table.step.after(before.clock_us, 1);
  if (table.step.unit == TimeStep::Unit::microseconds) {
    std::vector<std::int64_t> next;  // times of the next row, by the distance to each reading
    for (const auto& reading : read)
      if (reading)
        next.push_back(reading->clock_us + (rows - reading->position) * table.step.count);
    const auto middle = next.begin() + (std::ssize(next) - 1) / 2;
    std::ranges::nth_element(next, middle);
    if (std::abs(*middle - table.next_us) * 10 <= table.step.count) table.next_us = *middle;
  }
  table.next_us += before.time.us - before.clock_us;
}

// Sets the step of rules 1, the shortest interval between two rows.
void take_shortest_step(SeriesTable& table) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 1; i < table.times.size(); ++i)
    shortest = std::min(shortest, table.times[i].utc_us() - table.times[i - 1].utc_us());
  if (table.has_times) table.step = {TimeStep::Unit::microseconds, shortest};
  table.next_us = table.times.back().us + shortest;
}

// --- values ---

// Returns the names of the columns of the result: of each series in long form, "NAME: COLUMN", or
// "NAME" if there is one column.
std::vector<std::string> names_of(const Table& table, const Uses& uses,
                                  const std::vector<OneSeries>& series) {
  std::vector<std::string> names;
  for (const OneSeries& one : series)
    for (const std::int64_t column : uses.values) {
      const std::string& name = table.columns()[column].name;
      names.push_back(uses.series.empty()       ? name
                      : uses.values.size() == 1 ? one.name
                                                : one.name + ": " + name);
    }
  return names;
}

// Returns whether float32 holds a number, as what models read; NaN is one.
bool is_float32(double value) { return !(std::abs(value) > std::numeric_limits<float>::max()); }

void read_values(SeriesTable& read, const Table& table, const Uses& uses,
                 const std::vector<OneSeries>& series, std::int64_t rows, bool single) {
  constexpr std::int64_t most_values = std::int64_t{1} << 28;
  const auto M = std::ssize(read.names), per_series = std::ssize(uses.values);
  expect_input(M <= most_values / rows,
               "{}: {} series at {} times; expected at most {} values; give a smaller file",
               read.path, M, rows, most_values);
  read.values = Array::full({rows, M}, std::numeric_limits<double>::quiet_NaN(), DType::float64);
  const auto values = read.values.mutable_values<double>();
  for (std::int64_t s = 0; s < std::ssize(series); ++s)
    for (const Reading& reading : series[s].readings)
      for (std::int64_t k = 0; k < per_series; ++k)
        if (const auto value = table.number(reading.row, uses.values[k], single)) {
          expect_input(is_float32(*value), "{}: {}; expected a number of float32; correct the cell",
                       table.place(reading.row, uses.values[k]), *value);
          values[reading.position * M + s * per_series + k] = *value;
        }
}

SeriesTable read_by_step(const Table& table, const Uses& uses, const SeriesOptions& options) {
  SeriesTable read;
  read.path = table.path();
  read.has_times = uses.clock.form != Clock::Form::none;
  std::vector<OneSeries> series = series_of(table, uses);
  for (OneSeries& one : series) put_in_order(one.readings, read);
  if (read.has_times && options.rules > 1) read.step = common_step(series, read);
  std::int64_t origin_us = series.front().readings.front().clock_us;
  for (const OneSeries& one : series)
    origin_us = std::min(origin_us, one.readings.front().clock_us);
  if (read.step)
    for (OneSeries& one : series) count_steps(one, read.step, origin_us, read);
  else
    count_rows(series, read);
  constexpr std::int64_t most_inserted = 4;
  const std::int64_t rows = rows_of(series);
  expect_input(rows >= 2,
               "{}: all rows have one time; expected at least 2 times; correct the times",
               read.path);
  expect_input(rows - table.rows() <= most_inserted * table.rows(),
               "{}: the rows from {} to {} are {:.6g} s apart, so {} of {} are missing; remove "
               "rows far from the others",
               read.path, time_text(series.front().readings.front().time),
               time_text(series.front().readings.back().time), read.step.seconds(),
               rows - table.rows(), rows);
  set_times(read, series, rows);
  if (options.rules == 1) take_shortest_step(read);
  read.names = names_of(table, uses, series);
  read_values(read, table, uses, series, rows, options.rules == 1);
  return read;
}

// Returns the series of a program, whose rows are numbered, as a CSV without times has them.
SeriesTable series_of(const std::string& path, const SeriesInMemory& memory,
                      const SeriesOptions& options) {
  const std::int64_t rows = memory.values.dim(0), M = memory.values.dim(1);
  const auto x = memory.values.values<double>();
  SeriesTable table{.path = path, .names = options.columns, .has_times = false};
  if (table.names.empty()) table.names = memory.names;
  for (std::int64_t row = 0; row < rows; ++row) table.times.push_back({.us = row});
  table.next_us = rows - 1;
  table.values = Array({rows, std::ssize(table.names)}, DType::float64);
  auto to = table.values.mutable_values<double>().begin();
  std::vector<std::int64_t> columns;
  for (const std::string& name : table.names) {
    const auto found = std::ranges::find(memory.names, name);
    expect_option(found != memory.names.end(), "columns", "{}: no series is named {}; found {}",
                  path, shown(name), list_briefly(memory.names));
    columns.push_back(found - memory.names.begin());
  }
  for (std::int64_t row = 0; row < rows; ++row)
    for (const std::int64_t column : columns) {
      const double value = *to++ = x[row * M + column];
      expect_input(is_float32(value),
                   "{}: row {} (from 0): series {}: {}; expected a number of float32, or NaN", path,
                   row, shown(memory.names[column]), value);
    }
  return table;
}

// Returns the series of a file.
SeriesTable read_file_of_series(const std::string& path, const SeriesOptions& given) {
  const Table table(path, table_options(given));
  expect_input(table.rows() >= 2, "{}: the file has {} of numbers; expected at least 2; add rows",
               path, counted(table.rows(), "row"));
  table.expect_no_totals();
  SeriesTable read = read_by_step(table, uses_of(table, given), given);
  read.remarks = table.remarks();
  return read;
}

}  // namespace

SeriesOptions detect_format(const std::string& path, const SeriesOptions& given) {
  if (const auto* memory = in_memory<SeriesInMemory>(path)) {
    SeriesOptions options = given;
    options.time_column = no_times;
    if (options.columns.empty()) options.columns = memory->names;
    return options;
  }
  const Table table(path, table_options(given));
  table.expect_no_totals();
  const Uses uses = uses_of(table, given);
  SeriesOptions options = given;
  static_cast<TableOptions&>(options) = table.options();
  options.time_column = uses.clock.name(table);
  if (uses.clock.format) options.time_format = uses.clock.format->text();
  options.columns.clear();
  for (const std::int64_t column : uses.values)
    options.columns.push_back(table.columns()[column].name);
  Clock names = uses.clock;
  names.form = Clock::Form::times;
  names.columns = uses.series;
  options.series_column = uses.series.empty() ? "" : names.name(table);
  return options;
}

std::vector<ColumnUse> series_column_uses(const std::string& path, const SeriesOptions& options) {
  const Table table(path, table_options(options));
  const Uses uses = uses_of(table, options);
  std::vector<ColumnUse> all;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    constexpr std::size_t many = 10;
    const bool may_be_series = uses.values.size() >= many && uses.clock.form == Clock::Form::none &&
                               may_be_ids(table, column) &&
                               table.columns()[column].kind == ColumnKind::texts;
    const char* use = uses.clock.reads(column)        ? "time"
                      : contains(uses.series, column) ? "names of the series"
                      : contains(uses.values, column)
                          ? (may_be_ids(table, column) ? "series, all different: an id?" : "series")
                      : is_row_index(table, column) ? "row numbers, left out"
                                                    : "left out";
    all.push_back(
        {table.columns()[column].name,
         fmt::format("{}: {}{}", use, table.summary(column),
                     may_be_series
                         ? ", one in each row; if the rows are series, transpose the table"
                         : "")});
  }
  return all;
}

SeriesTable load_series(const std::string& path, const SeriesOptions& given) {
  const auto* memory = in_memory<SeriesInMemory>(path);
  SeriesTable read = memory ? series_of(path, *memory, given) : read_file_of_series(path, given);
  if (given.rules == 1 || given.missing == MissingValues::refuse) fill_missing(read, given.missing);
  return read;
}

}  // namespace tapestry
