#include "data/csv.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/option_error.hpp"
#include "data/series/series.hpp"

namespace tapestry {
namespace {

constexpr float missing_value = std::numeric_limits<float>::quiet_NaN();

// The columns of a table that are read, by their numbers.
struct Columns {
  std::optional<std::size_t> time{}, series{};  // the times, and the names of series in long form
  std::vector<std::size_t> values{};
};

// A row of the file.
struct Row {
  std::int64_t line = 0, time = 0;
  std::string series{};
  std::vector<float> values{};  // missing_value where the cell has none
};

std::size_t column_named(const std::vector<std::string>& names, const std::string& name,
                         const char* option, const FileLine& header) {
  const auto found = std::ranges::find(names, name);
  expect_option(found != names.end(), option,
                "{}: line 1: no column is named {}; expected one of {}", header.path, shown(name),
                list_briefly(names));
  return found - names.begin();
}

// Returns unix_seconds or unix_milliseconds for a number that is such a time from 1973 to 2286, in
// a column whose name is that of a time; else `detected`.
TimeFormat unix_format(const std::string& name, std::string_view cell) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_time =
      std::ranges::any_of(std::initializer_list<const char*>{"time", "date", "unix", "epoch", "ts"},
                          [&](const char* word) { return lower.find(word) != lower.npos; });
  const double number = is_time ? parse_number<double>(cell).value_or(0) : 0;
  if (number >= 1e8 && number < 1e10) return TimeFormat::unix_seconds;
  if (number >= 1e11 && number < 1e13) return TimeFormat::unix_milliseconds;
  return TimeFormat::detected;
}

TimeFormat time_format_in(const std::string& name, std::string_view cell) {
  const TimeFormat written = format_of_time(cell);
  return written == TimeFormat::detected ? unix_format(name, cell) : written;
}

// Sets the column of times and their format, unless given: the first column whose cell in the first
// row is a time; the first column, if its cell is no number, so that the message names this column;
// else none.
void detect_times(SeriesOptions& options, const std::vector<std::string>& names,
                  const std::vector<std::string_view>& first) {
  const std::size_t width = std::min(names.size(), first.size());
  for (std::size_t j = 0; j < width && options.time_column.empty(); ++j)
    if (names[j] != options.series_column &&
        time_format_in(names[j], first[j]) != TimeFormat::detected)
      options.time_column = names[j];
  if (options.time_column.empty())
    options.time_column =
        width > 0 && csv_number(first[0], options.decimal) ? no_times : names.front();
  if (options.time_format != TimeFormat::detected || options.time_column == no_times) return;
  const auto column = std::ranges::find(names, options.time_column) - names.begin();
  if (column < static_cast<std::ptrdiff_t>(width))
    options.time_format = time_format_in(names[column], first[column]);
  if (options.time_format == TimeFormat::detected) options.time_format = TimeFormat::iso;
}

SeriesOptions format_of(const CsvFile& file, SeriesOptions options) {
  constexpr std::size_t looked_at = 1000;
  if (options.delimiter == detected) options.delimiter = csv_delimiter(file.header());
  const std::vector<std::string> names = csv_names(file.header(), options.delimiter);
  std::vector<std::vector<std::string_view>> rows;
  file.for_each_row(
      looked_at, [&](const FileLine& line) { rows.push_back(csv_cells(line, options.delimiter)); });
  if (options.decimal == detected) options.decimal = csv_decimal(rows);
  detect_times(options, names, rows.empty() ? std::vector<std::string_view>() : rows.front());
  return options;
}

// A CSV file with its format and the names of its columns.
struct CsvTable {
  CsvFile file;
  SeriesOptions options;
  std::vector<std::string> names;

  CsvTable(const std::string& path, const SeriesOptions& given)
      : file(path),
        options(format_of(file, given)),
        names(csv_names(file.header(), options.delimiter)) {}
};

Columns columns_of(const SeriesOptions& options, const std::vector<std::string>& names,
                   const FileLine& header) {
  Columns columns;
  if (options.time_column != no_times)
    columns.time = column_named(names, options.time_column, "time_column", header);
  if (!options.series_column.empty())
    columns.series = column_named(names, options.series_column, "series_column", header);
  for (const std::string& name : options.columns)
    columns.values.push_back(column_named(names, name, "columns", header));
  for (std::size_t j = 0; options.columns.empty() && j < names.size(); ++j)
    if (columns.time != j && columns.series != j && names[j] != index_column)
      columns.values.push_back(j);
  header.expect(!columns.values.empty(),
                "expected a date and at least one series, separated by commas, semicolons or tabs, "
                "found \"{}\"; correct the header",
                shown(header.text));
  return columns;
}

void check_names(const std::vector<std::string>& names, const Columns& columns,
                 const FileLine& header) {
  header.expect(
      !std::ranges::all_of(columns.values,
                           [&](std::size_t j) { return parse_float(names[j]).has_value(); }),
      "expected the names of the columns, found numbers; add a header line");
  std::unordered_set<std::string_view> seen;
  for (const std::size_t j : columns.values) {
    header.expect(!names[j].empty(), "column {} has no name; give it one", j + 1);
    header.expect(seen.insert(names[j]).second, "two columns are named {}; rename one of them",
                  shown(names[j]));
  }
}

float value_in(std::string_view cell, const FileLine& line, const std::string& column,
               const SeriesOptions& options) {
  if (const std::optional<float> value = csv_number(cell, options.decimal)) return *value;
  const std::string place =
      fmt::format("{}: line {}: column {}: ", line.path, line.number, shown(column));
  if (is_missing(cell)) {
    expect_option(options.missing != MissingValues::refuse, "missing", "{}{}; enter a number",
                  place,
                  cell.empty() ? "the cell is empty"
                               : fmt::format("\"{}\" is not a float32 number", shown(cell)));
    return missing_value;
  }
  throw OptionError("columns",
                    fmt::format("{}\"{}\" is not a float32 number; enter one", place, shown(cell)));
}

Row row_in(const FileLine& line, const std::vector<std::string>& names, const Columns& columns,
           const SeriesOptions& options) {
  const std::vector<std::string_view> cells = csv_row(line, options.delimiter, names.size());
  Row row{.line = line.number, .time = line.number - 2};
  if (columns.time) {
    const std::string_view cell = cells[*columns.time];
    const auto time = parse_time(cell, options.time_format);
    expect_option(time.has_value(), "time_column",
                  "{}: line {}: column {}: \"{}\" is not a date or time; expected {}", line.path,
                  line.number, shown(names[*columns.time]), shown(cell),
                  example_of(options.time_format));
    row.time = *time;
  }
  if (columns.series) row.series = csv_text(cells[*columns.series]);
  for (const std::size_t j : columns.values)
    row.values.push_back(value_in(cells[j], line, names[j], options));
  return row;
}

// Returns the rows of a table in long form, one for each time, with the series "NAME: COLUMN", or
// "NAME" if there is one column, of all names, sorted. Sets the names. Throws InputError for too
// many values, and for a second row of a series at one time.
std::vector<Row> widened(const std::vector<Row>& rows, std::vector<std::string>& names,
                         const std::string& path) {
  std::map<std::string, std::size_t> series;
  std::map<std::int64_t, Row> wide;
  for (const Row& row : rows) series[row.series] = 0;
  const std::size_t M = names.size();
  std::unordered_set<std::int64_t> times;
  for (const Row& row : rows) times.insert(row.time);
  constexpr std::size_t most_values = std::size_t{1} << 28;
  expect_input(series.size() * M <= most_values / times.size(),
               "{}: {} series at {} times; expected at most {} values; give a smaller file", path,
               series.size() * M, times.size(), most_values);
  std::vector<std::string> all;
  for (auto& [name, first] : series) {
    first = all.size();
    for (const std::string& column : names) all.push_back(M == 1 ? name : name + ": " + column);
  }
  std::unordered_set<std::string> seen;
  for (const Row& row : rows) {
    expect_input(seen.insert(fmt::format("{} {}", row.time, row.series)).second,
                 "{}: line {}: a second row of {} at {}; remove one", path, row.line,
                 shown(row.series), time_text(row.time));
    Row& joined = wide[row.time];
    joined.values.resize(all.size(), missing_value);
    std::ranges::copy(row.values, joined.values.begin() + series[row.series]);
    joined.time = row.time;
    joined.line = row.line;
  }
  names = std::move(all);
  std::vector<Row> sorted;
  for (auto& [time, row] : wide) sorted.push_back(std::move(row));
  return sorted;
}

// Throws InputError if row i ≥ 1 is earlier than the one before; OptionError of "series_column" if
// both have one time, and of "gaps" if their distance is not that of the first two rows, unless
// `gaps`.
void check_interval(const std::vector<Row>& rows, std::size_t i, const std::string& path,
                    bool gaps) {
  const std::int64_t last = rows[i - 1].time, time = rows[i].time,
                     step = rows[1].time - rows[0].time;
  expect_option(time != last, "series_column", "{}: line {}: a second row at {}; remove one", path,
                rows[i].line, time_text(time));
  expect_input(time > last,
               "{}: line {}: {} is not later than {} in the row before; sort the rows by time",
               path, rows[i].line, time_text(time), time_text(last));
  expect_option(
      gaps || time - last == step, "gaps",
      "{}: line {}: expected {}, found {}; add the missing rows, or sort the rows by time", path,
      rows[i].line, time_text(last + step), time_text(time));
}

// Reverses rows whose times all descend. Returns whether they did.
bool put_in_order(std::vector<Row>& rows) {
  const bool descends =
      std::ranges::adjacent_find(rows, std::ranges::less_equal(), &Row::time) == rows.end();
  if (descends) std::ranges::reverse(rows);
  return descends;
}

// Replaces the missing values of a column (rows): by the last one before or, at the beginning, the
// first one after it; with `interpolates`, by the line between both.
void fill(std::vector<Row>& rows, std::size_t column, bool interpolates) {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(rows[i].values[column])) continue;
    const float value = rows[i].values[column];
    for (std::size_t gap = last ? *last + 1 : 0; gap < i; ++gap) {
      const float before = last ? rows[*last].values[column] : value;
      const auto part = [&](std::size_t row) {
        return static_cast<double>(rows[row].time - rows[*last].time);
      };
      rows[gap].values[column] =
          last && interpolates ? static_cast<float>(std::lerp(before, value, part(gap) / part(i)))
                               : before;
    }
    last = i;
  }
  for (std::size_t gap = last ? *last + 1 : rows.size(); gap < rows.size(); ++gap)
    rows[gap].values[column] = rows[*last].values[column];
}

// Replaces all missing values, which tables in long form can have without an empty cell. Throws
// OptionError of "missing" if these are refused, and of "columns" for a column without values.
void fill_all(std::vector<Row>& rows, const SeriesTable& table, MissingValues missing) {
  for (std::size_t m = 0; m < table.names.size(); ++m) {
    const auto is_lacking = [&](const Row& row) { return std::isnan(row.values[m]); };
    const auto first = std::ranges::find_if(rows, is_lacking);
    if (first == rows.end()) continue;
    expect_option(missing != MissingValues::refuse, "missing",
                  "{}: series {} has no value at {}; add the row", table.path,
                  shown(table.names[m]), time_text(first->time));
    expect_option(!std::ranges::all_of(rows, is_lacking), "columns",
                  "{}: series {}: all cells are empty; enter numbers, or leave the series out",
                  table.path, shown(table.names[m]));
    fill(rows, m, missing == MissingValues::interpolate);
  }
}

}  // namespace

SeriesOptions detect_format(const std::string& path, const SeriesOptions& options) {
  return format_of(CsvFile(path), options);
}

std::vector<std::string> series_columns(const std::string& path, const SeriesOptions& given) {
  const CsvTable table(path, given);
  std::vector<std::string> found;
  for (const std::size_t j : columns_of(table.options, table.names, table.file.header()).values)
    found.push_back(table.names[j]);
  return found;
}

std::vector<std::string> columns_with(ColumnKind kind, const std::string& path,
                                      const SeriesOptions& given) {
  const CsvTable table(path, given);
  const std::vector<std::string>& names = table.names;
  std::vector<char> has_numbers(names.size()), has_texts(names.size());
  table.file.for_each_row([&](const FileLine& line) {
    const std::vector<std::string_view> cells = csv_cells(line, table.options.delimiter);
    for (std::size_t j = 0; j < std::min(cells.size(), names.size()); ++j)
      if (csv_number(cells[j], table.options.decimal))
        has_numbers[j] = 1;
      else if (!is_missing(cells[j]))
        has_texts[j] = 1;
  });
  std::vector<std::string> found;
  for (std::size_t j = 0; j < names.size(); ++j) {
    if (names[j] == table.options.time_column || names[j] == table.options.series_column ||
        names[j] == index_column || names[j].empty())
      continue;
    if (kind == ColumnKind::texts ? has_texts[j] : has_numbers[j] && !has_texts[j])
      found.push_back(names[j]);
  }
  return found;
}

std::vector<std::string> find_problems(const std::string& path, const SeriesOptions& given) {
  const CsvTable table(path, given);
  const Columns columns = columns_of(table.options, table.names, table.file.header());
  std::vector<std::string> problems;
  std::vector<Row> rows;
  const auto note = [&](const auto& check) {
    try {
      check();
    } catch (const InputError& error) {
      problems.emplace_back(error.what());
    }
  };
  table.file.for_each_row([&](const FileLine& line) {
    note([&] { rows.push_back(row_in(line, table.names, columns, table.options)); });
  });
  put_in_order(rows);
  for (std::size_t i = 1; i < rows.size() && !columns.series; ++i) {
    // A row between these two is a problem already.
    if (std::abs(rows[i].line - rows[i - 1].line) != 1) continue;
    note([&] { check_interval(rows, i, path, table.options.gaps); });
  }
  return problems;
}

SeriesTable load_series(const std::string& path, const SeriesOptions& given) {
  const CsvTable csv(path, given);
  const Columns columns = columns_of(csv.options, csv.names, csv.file.header());
  check_names(csv.names, columns, csv.file.header());
  SeriesTable table{.path = path, .has_times = columns.time.has_value()};
  for (const std::size_t j : columns.values) table.names.push_back(csv.names[j]);
  std::vector<Row> rows;
  csv.file.for_each_row(
      [&](const FileLine& line) { rows.push_back(row_in(line, csv.names, columns, csv.options)); });
  expect_input(rows.size() >= 2, "{}: the file has {} of numbers; expected at least 2; add rows",
               path, counted(std::ssize(rows), "row"));
  if (columns.series) rows = widened(rows, table.names, path);
  expect_input(rows.size() >= 2,
               "{}: all rows have one time; expected at least 2 times; correct the times", path);
  table.was_reversed = put_in_order(rows);
  for (std::size_t i = 1; i < rows.size(); ++i) check_interval(rows, i, path, csv.options.gaps);
  fill_all(rows, table, csv.options.missing);
  table.values = Array({std::ssize(rows), std::ssize(table.names)});
  auto to = table.values.mutable_values<float>().begin();
  for (const Row& row : rows) {
    table.times.push_back(row.time);
    to = std::ranges::copy(row.values, to).out;
  }
  return table;
}

}  // namespace tapestry
