#include "data/series/series.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "data/file.hpp"
#include "data/text/text.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t day_s = 86400, month_s = 30 * day_s;

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
  const char* advice = (times.back() - last) % step == 0
                           ? "; fill in what is missing, put the rows in order, or allow gaps "
                             "with --set data.gaps=true"
                           : "";
  expect_at(gaps || times.back() - last == step, place, "expected {}, found {}{}",
            time_text(last + step), time_text(times.back()), advice);
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

// 3 waves of one series.
struct Wave {
  double period, amplitude, phase;
};

std::vector<Wave> draw_waves(Random& random) {
  std::vector<Wave> waves(3);
  for (Wave& wave : waves)
    wave = {random.uniform(6, 60), random.uniform(0.5, 1), random.uniform(0, 2 * std::numbers::pi)};
  return waves;
}

double height(const std::vector<Wave>& waves, double row) {
  double sum = 0;
  for (const Wave& wave : waves)
    sum += wave.amplitude * std::sin(2 * std::numbers::pi * row / wave.period + wave.phase);
  return sum;
}

}  // namespace

std::int64_t SeriesTable::step_s() const {
  std::int64_t step = times[1] - times[0];
  for (std::size_t i = 2; i < times.size(); ++i) step = std::min(step, times[i] - times[i - 1]);
  return step;
}

SeriesTable load_series(const std::string& path, bool gaps) {
  const std::string content = read_text(path);
  std::vector<std::string_view> lines = cut_lines(content);
  while (!lines.empty() && trimmed(lines.back()).empty()) lines.pop_back();
  expect_input(!lines.empty(), "{}: the file is empty; give a CSV with a header", path);
  const std::vector<std::string_view> header = cells_of(lines.front());
  expect_input(header.size() >= 2,
               "{}: line 1: expected a date and at least one series, separated by commas, found "
               "\"{}\"",
               path, shown(lines.front()));
  SeriesTable table{path, {header.begin() + 1, header.end()}, {}, {}};
  check_names(table);
  std::vector<float> values;
  values.reserve(lines.size() * (header.size() - 1));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Place place{path, static_cast<std::int64_t>(i) + 1};
    expect_at(!trimmed(lines[i]).empty(), place, "an empty line");
    const std::vector<std::string_view> cells = cells_of(lines[i]);
    expect_at(cells.size() == header.size(), place, "{} columns, expected {} as in the header",
              cells.size(), header.size());
    table.times.push_back(row_time(cells[0], place, std::string(header[0])));
    check_order(table.times, place, gaps);
    for (std::size_t j = 1; j < cells.size(); ++j)
      values.push_back(cell(cells[j], place, table.names[j - 1]));
  }
  const std::int64_t rows = std::ssize(table.times);
  expect_input(rows >= 2, "{}: {} rows of numbers; expected at least 2", path, rows);
  table.values = Array::of(values, {rows, std::ssize(table.names)});
  return table;
}

std::string time_text(std::int64_t time_s) {
  const std::int64_t days = time_s / day_s - (time_s % day_s < 0), seconds = time_s - days * day_s;
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     seconds / 3600, seconds / 60 % 60, seconds % 60);
}

SeriesTable make_waves(const WaveOptions& options) {
  const std::int64_t M = options.series, rows = options.rows;
  require(M >= 1 && rows >= 2, "make_waves: {} series of {} rows", M, rows);
  SeriesTable table{"waves", {}, {}, Array({rows, M})};
  const auto values = table.values.mutable_values<float>();
  for (std::int64_t m = 0; m < M; ++m) {
    Random random(options.seed, Stream::data, static_cast<std::uint64_t>(m));
    const std::vector<Wave> waves = draw_waves(random);
    table.names.push_back(fmt::format("wave {}", m + 1));
    for (std::int64_t row = 0; row < rows; ++row)
      values[row * M + m] = static_cast<float>(height(waves, static_cast<double>(row)) +
                                               options.noise * random.normal());
  }
  const std::int64_t first = parse_time("2000-01-01").value();
  for (std::int64_t row = 0; row < rows; ++row) table.times.push_back(first + row * 3600);
  return table;
}

SeriesRanges split_by_fractions(const SeriesTable& table, double train, double validation) {
  const auto rows = static_cast<double>(table.rows());
  const auto first = std::llround(rows * train), second = std::llround(rows * (train + validation));
  return {{0, first}, {first, second}, {second, table.rows()}};
}

SeriesRanges split_by_months(const SeriesTable& table, const Months& months) {
  const auto row_after = [&](std::int64_t count) {
    const std::int64_t end = table.times.front() + count * month_s;
    expect_input(
        end <= table.times.back() + table.step_s(),
        "{}: data.train_months and its like, {} + {} + {} months of 30 days, end at {}, the "
        "file at {}; make them fewer, or set data.split = \"fractions\"",
        table.path, months.train, months.validation, months.test, time_text(end),
        time_text(table.times.back()));
    return std::ranges::lower_bound(table.times, end) - table.times.begin();
  };
  const std::int64_t third = row_after(months.train + months.validation + months.test),
                     second = row_after(months.train + months.validation),
                     first = row_after(months.train);
  return {{0, first}, {first, second}, {second, third}};
}

SeriesScale SeriesScale::of(const SeriesTable& table, const RowRange& rows) {
  const std::int64_t M = std::ssize(table.names);
  const auto count = static_cast<double>(rows.end - rows.begin);
  require(count >= 1, "SeriesScale: rows [{}, {})", rows.begin, rows.end);
  const auto values = table.values.values<float>();
  SeriesScale scale;
  for (std::int64_t m = 0; m < M; ++m) {
    double sum = 0, squares = 0;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) sum += values[row * M + m];
    const double mean = sum / count;
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      squares += std::pow(values[row * M + m] - mean, 2);
    scale.means.push_back(mean);
    scale.deviations.push_back(squares > 0 ? std::sqrt(squares / count) : 1);
  }
  return scale;
}

Array SeriesScale::apply(const Array& values) const {
  Array scaled = values.clone();
  const auto x = scaled.mutable_values<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t m = i % means.size();
    x[i] = static_cast<float>((x[i] - means[m]) / deviations[m]);
  }
  return scaled;
}

SeriesDataset::SeriesDataset(Array values, const RowRange& rows, const Window& window)
    : values_(std::move(values)),
      window_(window),
      first_(std::max(rows.begin, window.context)),
      last_(rows.end - window.horizon) {
  require(values_.rank() == 2 && rows.end <= values_.dim(0) && window.context >= 1 &&
              window.horizon >= 1 && first_ <= last_,
          "SeriesDataset: rows [{}, {}) of {} hold no window of {} and {} rows", rows.begin,
          rows.end, to_string(values_.shape()), window.context, window.horizon);
}

Batch SeriesDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  const std::int64_t T = window_.context, horizon = window_.horizon, M = values_.dim(1);
  Batch batch{Array({B, T, M}), Array({B, horizon, M}), static_cast<double>(B * horizon * M)};
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<float>().begin();
  for (const std::int64_t example : examples) {
    require(example >= 0 && example < size(), "SeriesDataset: example {} of {}", example, size());
    const auto now = values_.values<float>().begin() + target_row(example) * M;
    input = std::copy(now - T * M, now, input);
    target = std::copy_n(now, horizon * M, target);
  }
  return batch;
}

}  // namespace tapestry
