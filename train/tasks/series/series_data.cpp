#include "train/tasks/series/series_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/outlier.hpp"
#include "data/text/printable.hpp"
#include "layers/models/forecaster.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/table_settings.hpp"

namespace tapestry {
namespace {

constexpr const char* names_of_columns = "columns";  // name of the metadata

const Condition of_waves = key_is("data.kind", "waves"), of_csv = key_is("data.kind", "csv"),
                by_fractions = key_is("data.split", "fractions"),
                by_months = key_is("data.split", "months");

// Returns data.path. Throws InputError if it names nothing that exists.
const std::string& required_csv(const Given<SeriesSettings>& given) {
  return given.required_path("no time series",
                             std::string(series_files) + " with --set data.path=FILE");
}

SeriesTable load_csv(const Given<SeriesSettings>& given) {
  const std::string& path = required_csv(given);
  return given.checked([&] { return load_series(path, given); });
}

SeriesTable load(const Given<SeriesSettings>& given) {
  if (given.kind == SeriesKind::csv) return load_csv(given);
  given.expect_no_path();
  return make_waves(given.waves);
}

// Returns the elements with these indices, or all if there are none. Throws std::invalid_argument
// for an index that is too large.
template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<std::int64_t>& indices) {
  if (indices.empty()) return all;
  std::vector<T> some;
  for (const std::int64_t i : indices) {
    require(i < std::ssize(all), "series: {} of them; expected more than {}", all.size(), i);
    some.push_back(all[i]);
  }
  return some;
}

SeriesScale chosen(const SeriesScale& all, const std::vector<std::int64_t>& indices) {
  return {chosen(all.means, indices), chosen(all.deviations, indices)};
}

SeriesTable chosen(SeriesTable table, const std::vector<std::int64_t>& indices) {
  table.names = chosen(table.names, indices);
  table.values = select_series(table.values, 1, indices).value();
  return table;
}

// Returns the numbers in a text, whatever the locale that a program sets. Throws
// std::invalid_argument for any other text.
std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<double> value = parse_number<double>(part);
    require(value.has_value(),
            "series: '{}' is not a number; expected numbers with commas between them", part);
    values.push_back(*value);
  }
  return values;
}

}  // namespace

const SettingsOf<SeriesSettings> series_settings = [] {
  using S = SeriesSettings;
  using Row = Bound<S>;
  std::vector<Row> rows{
      Row("data.kind", &S::kind, "synthetic waves, or the CSV file of data.path",
          {{"waves", SeriesKind::waves}, {"csv", SeriesKind::csv}}),
      Row(key::data_path, &S::path),
      Row(key::seed, within(&S::waves, &WaveOptions::seed)),
      Row(key::data_source, &S::source),
      Row(key::data_rules, &S::rules),
      Row("data.series", within(&S::waves, &WaveOptions::series), "number of synthetic series",
          {.low = 1, .high = 1000, .used_if = {of_waves}}),
      Row("data.rows", within(&S::waves, &WaveOptions::rows), "rows of the synthetic series",
          {.low = 2, .high = 1e7, .used_if = {of_waves}}),
      Row("data.noise", within(&S::waves, &WaveOptions::noise),
          "standard deviation of the noise of the synthetic series",
          {.low = 0, .high = 100, .used_if = {of_waves}}),
      Row("data.gaps", &S::gaps,
          "by data.rules = 1: allow missing rows in the file, such as weekends; else they may be "
          "missing",
          {.used_if = {of_csv}}),
      Row("data.time_column", &S::time_column,
          "name of the column of times, or of several, as in \"Date + Time\" and \"year + month\"; "
          "none: there is none, and rows are numbered; empty: detected",
          {.used_if = {of_csv},
           .advice = "set data.time_column to the column of times, or to \"none\""}),
      Row("data.time_format", &S::time_format,
          "format of the times: 2016-07-31 [12:00[:00]] (iso), 31.07.2016 [12:00] (day-first), "
          "seconds since 1970 or parts of them (unix, unix-ms, unix-us, unix-ns), days of a "
          "spreadsheet (excel), or a pattern with %Y %y %m %q %d %j %b %B %H %I %p %M %S %f %z; "
          "auto: "
          "detected",
          {.used_if = {of_csv}, .advice = "set data.time_format to one of them"}),
      Row("data.columns", &S::columns,
          "names of the columns that are read as series; empty: all with numbers, but those of "
          "times, names and row numbers",
          {.used_if = {of_csv}, .advice = "or list other columns in this key"}),
      Row("data.series_column", &S::series_column,
          "name of a column that names the series of each row, for files with a row per series and "
          "time, or of two, as in \"store + item\"; empty: detected (by data.rules = 1 none)",
          {.used_if = {of_csv}, .advice = "give the column that names the series of each row"}),
      Row("data.targets", &S::targets,
          "names of the series that are forecast, each from all series of data.columns; empty: "
          "all, each from its own past",
          {.used_if = {of_csv, key_is("data.series_column", "")}}),
      Row("data.missing", &S::missing,
          "what inputs have where no value was measured: a line between the values before and "
          "after (interpolate) or the last value (previous); refuse: such a table is an error. No "
          "metric counts these cells",
          {{"refuse", MissingValues::refuse},
           {"previous", MissingValues::previous},
           {"interpolate", MissingValues::interpolate}},
          {.used_if = {of_csv},
           .advice = "set data.missing to \"interpolate\" or \"previous\", or enter the value"}),
      Row("data.split", &S::split,
          "how the rows are divided into training, validation and test split, in this order",
          {{"fractions", SplitBy::fractions}, {"months", SplitBy::months}}),
      Row("data.train_fraction", &S::train_fraction, "fraction of the rows in the training split",
          {.low = 0.01, .high = 0.98, .used_if = {by_fractions}}),
      Row("data.validation_fraction", &S::validation_fraction,
          "fraction of the rows in the validation split",
          {.low = 0.01, .high = 0.98, .used_if = {by_fractions}}),
      Row("data.train_months", within(&S::months, &Months::train),
          "length of the training split, in months of 30 days",
          {.low = 1,
           .high = 12000,
           .used_if = {by_months},
           .advice = "lower the numbers of months, or set data.split = \"fractions\""}),
      Row("data.validation_months", within(&S::months, &Months::validation),
          "length of the validation split, in months of 30 days",
          {.low = 1, .high = 12000, .used_if = {by_months}}),
      Row("data.test_months", within(&S::months, &Months::test),
          "length of the test split, in months of 30 days",
          {.low = 1, .high = 12000, .used_if = {by_months}})};
  const std::vector<Row> of_table = table_rows<S>({of_csv});
  rows.insert(rows.end(), of_table.begin(), of_table.end());
  return rows;
}();

void detect_series(Config& config) {
  Given<SeriesSettings> given = series_settings.of(config);
  if (given.kind != SeriesKind::csv || given.path.empty() || !is_there(given.path) ||
      is_folder(given.path))
    return;
  const bool needs_columns =
      given.columns.empty() &&
      (!given.targets.empty() || config.value("model.cycle") != Value(std::int64_t{0}));
  given.checked([&] {
    static_cast<SeriesOptions&>(given) = detect_format(given.path, given);
    return 0;
  });
  series_settings.detect(config, given, table_options);
  series_settings.detect(config, given, {"time_column", "time_format", "series_column"});
  if (needs_columns) series_settings.detect(config, given, {"columns"});
}

namespace {

// Throws InputError, of this option, if data.columns is empty.
void expect_columns_for(const Given<SeriesSettings>& given, const std::string& option) {
  if (!given.columns.empty()) return;
  const std::string& path = required_csv(given);
  given.fail(option,
             !is_folder(path)
                 ? "data.columns is empty; list the series in data.columns"
                 : fmt::format("data.columns is empty, and {} is not a file whose columns can be "
                               "read; give a CSV file, or list the series in data.columns",
                               shown(path)));
}

}  // namespace

std::int64_t count_series(const Given<SeriesSettings>& given) {
  if (given.kind == SeriesKind::waves) return given.waves.series;
  expect_columns_for(given, "columns");
  return std::ssize(given.columns);
}

std::vector<std::int64_t> target_indices(const Given<SeriesSettings>& given) {
  const std::vector<std::string>&columns = given.columns, &targets = given.targets;
  if (targets.empty()) return {};
  expect_columns_for(given, "targets");
  std::vector<std::int64_t> indices;
  for (const std::string& name : targets) {
    const auto found = std::ranges::find(columns, name);
    given.expect(found != columns.end(), "targets",
                 "no series is named {}; expected one of data.columns: {}", shown(name),
                 list_briefly(columns));
    indices.push_back(found - columns.begin());
    given.expect(std::ranges::count(targets, name) == 1, "targets",
                 "{} is listed twice; remove one", shown(name));
  }
  return indices;
}

namespace {

// Adds the columns whose values are all the same, and those with a value that seems to stand for a
// missing one.
void add_columns(Recognized& found, const SeriesTable& table) {
  const auto values = table.values.values<double>();
  const auto M = std::ssize(table.names);
  for (std::int64_t m = 0; m < M; ++m) {
    std::vector<float> column;
    for (std::int64_t row = 0; row < table.rows(); ++row)
      if (const double value = values[row * M + m]; !std::isnan(value))
        column.push_back(static_cast<float>(value));
    const std::string name = printable_beginning(table.names[m]);
    if (column.empty()) {
      found.problems.push_back(fmt::format("column {}: no value is measured", name));
      continue;
    }
    if (const auto [least, most] = std::ranges::minmax(column); least == most)
      found.problems.push_back(fmt::format("column {}: all values are {}", name, least));
    else if (const std::optional<Outlier> outlier = outlier_of(column))
      found.problems.push_back(outlier_text(*outlier, name));
  }
}

// Adds what was done to the rows of the file.
void add_rows(Recognized& found, const SeriesTable& table) {
  const auto values = table.values.size(), unmeasured = table.unmeasured();
  found.problems.insert(found.problems.end(), table.remarks.begin(), table.remarks.end());
  if (table.was_reversed) found.facts["order"] = "the rows descend in time and are read in reverse";
  if (table.clock_changes > 0)
    found.facts["changes of the clock"] = fmt::format(
        "{} for daylight saving; rows follow each other as in the file", table.clock_changes);
  if (table.repeated_rows > 0)
    found.problems.push_back(fmt::format("{} at a time that a row before has: the first is kept",
                                         counted(table.repeated_rows, "row")));
  if (table.inserted_rows > 0)
    found.problems.push_back(
        fmt::format("{} of {} are missing in the file; nothing is measured there",
                    table.inserted_rows, counted(table.rows(), "row")));
  if (unmeasured > 0)
    found.problems.push_back(
        fmt::format("{} of {} values are not measured; no metric counts them", unmeasured, values));
  if (table.has_times && !table.step)
    found.problems.emplace_back(
        "the times follow no step: rows are taken as they follow each other, without a season");
}

}  // namespace

SeriesTable recognize_series(Recognized& found, const UserData& data) {
  const Given<SeriesSettings> given = series_settings.of(
      parse_config("task = \"forecast\"\n[data]\nkind = \"csv\"\n", "init", data.overrides));
  SeriesSettings format = given;
  const SeriesTable table = given.checked([&] {
    static_cast<SeriesOptions&>(format) = detect_format(data.path, given);
    return load_series(data.path, format);
  });
  add_columns(found, table);
  found.facts = {{"series", std::ssize(table.names)},
                 {"names", printable_beginning(fmt::format("{}", fmt::join(table.names, ", ")))},
                 {"rows", table.rows()},
                 {"delimiter", series_settings.text("delimiter", format)},
                 {"decimal mark", series_settings.text("decimal", format)},
                 {"time column", printable(format.time_column)},
                 {"first time", row_text(table, 0)},
                 {"last time", row_text(table, table.rows() - 1)},
                 {"split", "70 % of the rows for training, 10 % for validation, 20 % for testing"}};
  if (format.thousands != no_mark)
    found.facts["thousands mark"] = series_settings.text("thousands", format);
  if (table.has_times) {
    found.facts["time format"] = format.time_format;
    found.facts["step"] = step_text(table.step);
    found.facts["seconds between rows"] = table.step.seconds();
  }
  add_rows(found, table);
  add_column_uses(found, series_column_uses(data.path, format));
  series_settings.add_chosen(found.settings, format, table_options, "found in the file");
  series_settings.add_chosen(found.settings, format,
                             {"time_column", "time_format", "series_column", "missing_words"},
                             "found in the file");
  found.settings.push_back({"data.split", std::string("fractions"),
                            "the first 70 % for training, then 10 % for validation"});
  return table;
}

SeriesScale kept_scale(const SeriesData::Metadata& trained,
                       const std::vector<std::int64_t>& series) {
  return chosen({numbers(kept_value(trained, "means")), numbers(kept_value(trained, "deviations"))},
                series);
}

std::vector<std::string> kept_names(const SeriesData::Metadata& trained,
                                    const std::vector<std::int64_t>& series) {
  const JsonValue names = JsonValue::parse(kept_value(trained, names_of_columns));
  return chosen(names.get<std::vector<std::string>>(), series);
}

SeriesData::SeriesData(const Given<SeriesSettings>& given, const SeriesDataset::Window& window,
                       const Metadata& trained, bool whole)
    : given_(given),
      whole_(whole),
      window_(window),
      table_(std::make_shared<const SeriesTable>(load(given))),
      targets_(chosen(*table_, window.targets)),
      scale_(scale_from(trained)),
      target_scale_(chosen(scale_, window.targets)),
      values_(scale_.apply(table_->values)) {}

SeriesScale SeriesData::scale_from(const Metadata& trained) const {
  if (trained.empty()) return SeriesScale::of(*table_, ranges().train);
  const SeriesScale scale = kept_scale(trained);
  expect_input(scale.means.size() == table_->names.size(),
               "{}: the file has {} series, but this model was trained on {}; give its data",
               table_->path, table_->names.size(), scale.means.size());
  expect_columns(trained);
  return scale;
}

// Throws InputError if the columns are in another order, because each series has its own scale.
void SeriesData::expect_columns(const Metadata& trained) const {
  const std::vector<std::string> names = kept_names(trained);
  require(names.size() == table_->names.size(),
          "series: {} names of {} series; expected one for each", names.size(),
          table_->names.size());
  const auto [wanted, given] = std::ranges::mismatch(names, table_->names);
  if (wanted == names.end()) return;
  const bool only_moved = std::ranges::is_permutation(names, table_->names);
  throw InputError(fmt::format(
      "{}: series {} is {}, but this model was trained on {}; {}: {}", table_->path,
      given - table_->names.begin() + 1, printable(*given), printable(*wanted),
      only_moved ? "arrange the columns in this order" : "give the series that it was trained on",
      printable(fmt::format("{}", fmt::join(names, ", ")))));
}

Array SeriesData::inputs_before(std::int64_t row) const {
  return SeriesDataset::inputs_before(values_, row, window_);
}

Array SeriesData::place_before(std::int64_t row) const {
  if (window_.cycle == 0) return {};
  const std::int64_t place = place_in_cycle(*table_, row - window_.context, window_.cycle);
  return Array::of(std::vector{static_cast<std::int32_t>(place)}, {1});
}

bool SeriesData::is_target_measured(std::int64_t target, std::int64_t begin,
                                    std::int64_t end) const {
  for (std::int64_t row = begin; row < end; ++row)
    if (!std::isnan(targets_.values.values<double>()[row * targets_.values.dim(1) + target]))
      return true;
  return false;
}

SeriesData::Metadata SeriesData::metadata() const {
  return {{"means", fmt::format("{}", fmt::join(scale_.means, ","))},
          {"deviations", fmt::format("{}", fmt::join(scale_.deviations, ","))},
          {names_of_columns, JsonValue(table_->names).dump()}};
}

std::string SeriesData::remark() const {
  const std::int64_t unmeasured = table_->unmeasured();
  if (unmeasured == 0) return "";
  std::string text = fmt::format(
      "{} of {} values are not measured ({} of {} missing); no metric counts them", unmeasured,
      table_->values.size(), table_->inserted_rows, counted(table_->rows(), "row is", "rows are"));
  if (!splits_) return text;
  const std::int64_t left_out =
      splits_->train.left_out() + splits_->validation.left_out() + splits_->test.left_out();
  if (left_out > 0)
    text += fmt::format("; {} with less than half of the inputs or no target are left out",
                        counted(left_out, "window"));
  std::vector<std::string> unscaled;
  for (std::int64_t m = 0; m < std::ssize(table_->names) && !whole_; ++m)
    if (count_measured(*table_, m, ranges().train) < 2) unscaled.push_back(table_->names[m]);
  if (!unscaled.empty())
    text += fmt::format("; not scaled, with fewer than two values for training: {}",
                        printable(list_briefly(unscaled)));
  return text;
}

SeriesRanges SeriesData::ranges() const {
  const double train = given_.train_fraction, validation = given_.validation_fraction;
  const bool is_by_months = given_.split == SplitBy::months;
  given_.expect(
      is_by_months || train + validation < 1, "validation_fraction",
      "the sum with data.train_fraction = {} must be below 1, so that a test split is left", train);
  const RowRange all{0, table_->rows()};
  const SeriesRanges ranges =
      whole_         ? SeriesRanges{all, all, all}
      : is_by_months ? given_.checked([&] { return split_by_months(*table_, given_.months); })
                     : split_by_fractions(*table_, train, validation);
  const std::int64_t T = window_.context, H = window_.horizon;
  for (const auto& [name, range] : {std::pair{whole_ ? "data" : "training split", ranges.train},
                                    {"validation split", ranges.validation},
                                    {"test split", ranges.test}})
    expect_input(std::max(range.begin, T) + H <= range.end,
                 "{}: no window of model.context = {} and model.horizon = {} steps fits the {}, "
                 "rows {} to {}; lower them, or add rows",
                 table_->path, T, H, name, range.begin, range.end);
  return ranges;
}

const SeriesData::Splits& SeriesData::splits() {
  if (splits_) return *splits_;
  const SeriesRanges rows = ranges();
  return splits_.emplace(Splits{SeriesDataset(values_, rows.train, window_, table_),
                                SeriesDataset(values_, rows.validation, window_, table_),
                                SeriesDataset(values_, rows.test, window_, table_)});
}

}  // namespace tapestry
