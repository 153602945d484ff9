#include "train/tasks/series/series_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "autograd/counted.hpp"
#include "data/csv.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/outlier.hpp"
#include "data/text/printable.hpp"
#include "layers/models/forecaster.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

constexpr const char* names_of_columns = "columns";  // name of the metadata

const Condition of_waves = key_is("data.kind", "waves"), of_csv = key_is("data.kind", "csv"),
                by_fractions = key_is("data.split", "fractions"),
                by_months = key_is("data.split", "months");

// Returns the messages of the first ten of the rows with problems, and how many there are more.
std::vector<std::string> first_problems(std::vector<std::string> all) {
  constexpr std::size_t most = 10;
  if (all.size() <= most) return all;
  const std::string more = fmt::format("{} more like these", all.size() - most);
  all.resize(most);
  all.push_back(more);
  return all;
}

// Returns the messages of the rows with problems; none if the header has one.
std::vector<std::string> problems_of(const std::string& path, const SeriesOptions& options) try {
  return find_problems(path, options);
} catch (const InputError&) {
  return {};
}

// Returns data.path. Throws InputError if it names nothing that exists.
const std::string& required_csv(const Given<SeriesSettings>& given) {
  return given.required_path("no time series",
                             std::string(series_files) + " with --set data.path=FILE");
}

SeriesTable load_csv(const Given<SeriesSettings>& given) {
  const std::string& path = required_csv(given);
  try {
    return given.checked([&] { return load_series(path, given); });
  } catch (const InputError& error) {
    const std::vector<std::string> all = problems_of(path, given);
    if (all.size() < 2) throw;
    throw WrongRows(fmt::format("{}; {} have problems: `tapestry init FILE` lists them",
                                error.what(), counted(std::ssize(all), "row")),
                    first_problems(all));
  }
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
  return std::vector<Row>{
      Row("data.kind", &S::kind, "synthetic waves, or the CSV file of data.path",
          {{"waves", SeriesKind::waves}, {"csv", SeriesKind::csv}}),
      Row(key::data_path, &S::path),
      Row(key::seed, within(&S::waves, &WaveOptions::seed)),
      Row(key::data_source, &S::source),
      Row("data.series", within(&S::waves, &WaveOptions::series), "number of synthetic series",
          {.low = 1, .high = 1000, .used_if = {of_waves}}),
      Row("data.rows", within(&S::waves, &WaveOptions::rows), "rows of the synthetic series",
          {.low = 2, .high = 1e7, .used_if = {of_waves}}),
      Row("data.noise", within(&S::waves, &WaveOptions::noise),
          "standard deviation of the noise of the synthetic series",
          {.low = 0, .high = 100, .used_if = {of_waves}}),
      Row("data.gaps", &S::gaps, "allow missing rows in the CSV file, such as weekends",
          {.used_if = {of_csv}, .advice = "or set data.gaps = true"}),
      Row("data.delimiter", &S::delimiter, "character between the cells of the CSV file",
          {{"auto", detected}, {",", ','}, {";", ';'}, {"tab", '\t'}}, {.used_if = {of_csv}}),
      Row("data.decimal", &S::decimal, "decimal mark of the numbers in the CSV file",
          {{"auto", detected}, {".", '.'}, {",", ','}}, {.used_if = {of_csv}}),
      Row("data.time_column", &S::time_column,
          "name of the column of times; none: there is none, and rows are numbered; empty: "
          "detected",
          {.used_if = {of_csv}, .advice = "give the name of the column of times, or \"none\""}),
      Row("data.time_format", &S::time_format,
          "format of the times: 2016-07-31 [12:00[:00]] (iso), 31.07.2016 [12:00] (day-first), "
          "seconds or milliseconds since 1970 (unix, unix-ms)",
          {{"auto", TimeFormat::detected},
           {"iso", TimeFormat::iso},
           {"day-first", TimeFormat::day_first},
           {"unix", TimeFormat::unix_seconds},
           {"unix-ms", TimeFormat::unix_milliseconds}},
          {.used_if = {of_csv}}),
      Row("data.columns", &S::columns,
          "names of the columns that are read as series; empty: all but those of times and of "
          "names",
          {.used_if = {of_csv}, .advice = "or list other columns in this key"}),
      Row("data.series_column", &S::series_column,
          "name of a column that names the series of each row, for files with a row per series and "
          "time; empty: none",
          {.used_if = {of_csv}, .advice = "or give the column that names the series of each row"}),
      Row("data.targets", &S::targets,
          "names of the series that are forecast, each from all series of data.columns; empty: "
          "all, each from its own past",
          {.used_if = {of_csv, key_is("data.series_column", "")}}),
      Row("data.missing", &S::missing,
          "what replaces cells without a value: nothing (refuse), the last value (previous), or a "
          "line between the values before and after (interpolate)",
          {{"refuse", MissingValues::refuse},
           {"previous", MissingValues::previous},
           {"interpolate", MissingValues::interpolate}},
          {.used_if = {of_csv},
           .advice = "or set data.missing to \"interpolate\" or \"previous\""}),
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
}();

void detect_series(Config& config) {
  Given<SeriesSettings> given = series_settings.of(config);
  std::error_code unseen;
  if (given.kind != SeriesKind::csv || given.path.empty() ||
      !std::filesystem::is_regular_file(given.path, unseen))
    return;
  const bool has_columns = given.targets.empty() || !given.columns.empty();
  static_cast<SeriesOptions&>(given) = detect_format(given.path, given);
  series_settings.detect(config, given, {"delimiter", "decimal", "time_column", "time_format"});
  if (has_columns) return;
  given.columns = given.checked([&] { return series_columns(given.path, given); });
  series_settings.detect(config, given, {"columns"});
}

std::vector<std::int64_t> target_indices(const Given<SeriesSettings>& given) {
  const std::vector<std::string>&columns = given.columns, &targets = given.targets;
  if (targets.empty()) return {};
  if (columns.empty()) {
    const std::string& path = required_csv(given);
    std::error_code unseen;
    given.fail("targets",
               std::filesystem::is_regular_file(path, unseen)
                   ? "data.columns is empty; list the series in data.columns"
                   : fmt::format("data.columns is empty, and {} is not a file whose columns can "
                                 "be read; give a CSV file, or list the series in data.columns",
                                 shown(path)));
  }
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

// Returns the only column of a CSV that has texts other than times, or "".
std::string column_of_names(const std::string& path, const SeriesOptions& options) {
  const std::vector<std::string> texts = columns_with(ColumnKind::texts, path, options);
  return texts.size() == 1 ? texts.front() : "";
}

// Returns the table, after each problem of the data that an option solves has set that option.
SeriesTable load_with_changes(Recognized& found, const std::string& path) {
  SeriesSettings options;
  const auto change = [&](const std::string& option, const char* comment) {
    const Bound<SeriesSettings>& changed = series_settings[option];
    found.settings.push_back({changed.name, changed.get(options), comment});
    return changed.get(options) != changed.fallback;
  };
  for (int changes = 0;; ++changes) try {
      return load_series(path, options);
    } catch (const OptionError& error) {
      if (changes == 0) found.problems = first_problems(find_problems(path, options));
      const std::string& option = error.option;
      if (option == "gaps" && !options.gaps) {
        options.gaps = true;
        change(option, "rows are missing");
      } else if (option == "missing" && options.missing == MissingValues::refuse) {
        options.missing = MissingValues::interpolate;
        change(option, "cells have no value");
      } else if (option == "columns" && options.columns.empty()) {
        options.columns = columns_with(ColumnKind::numbers, path, options);
        if (!change(option, "the others have texts")) throw;
      } else if (option == "series_column" && options.series_column.empty()) {
        options.series_column = column_of_names(path, options);
        if (!change(option, "names the series of each row")) throw;
      } else {
        throw;
      }
    }
}

// Adds the columns whose values are all the same, and those with a value that seems to stand for a
// missing one.
void add_columns(Recognized& found, const SeriesTable& table) {
  const auto values = table.values.values<float>();
  const auto M = std::ssize(table.names);
  for (std::int64_t m = 0; m < M; ++m) {
    std::vector<float> column;
    for (std::int64_t row = 0; row < table.rows(); ++row) column.push_back(values[row * M + m]);
    const std::string name = printable_beginning(table.names[m]);
    if (const auto [least, most] = std::ranges::minmax(column); least == most)
      found.problems.push_back(fmt::format("column {}: all values are {}", name, least));
    else if (const std::optional<Outlier> outlier = outlier_of(column))
      found.problems.push_back(fmt::format(
          "column {}: the value {:.6g} occurs {}, all others are between {:.6g} and {:.6g}; if it "
          "marks missing values, leave these cells empty",
          name, outlier->value, counted(outlier->count, "time"), outlier->low, outlier->high));
  }
}

}  // namespace

SeriesTable recognize_series(Recognized& found, const std::string& path) {
  SeriesTable table = load_with_changes(found, path);
  add_columns(found, table);
  SeriesSettings format;
  static_cast<SeriesOptions&>(format) = detect_format(path);
  found.facts = {{"series", std::ssize(table.names)},
                 {"names", printable_beginning(fmt::format("{}", fmt::join(table.names, ", ")))},
                 {"rows", table.rows()},
                 {"delimiter", series_settings.text("delimiter", format)},
                 {"decimal mark", series_settings.text("decimal", format)},
                 {"time column", printable(format.time_column)},
                 {"first time", row_text(table, 0)},
                 {"last time", row_text(table, table.rows() - 1)},
                 {"split", "70 % of the rows for training, 10 % for validation, 20 % for testing"}};
  if (table.has_times) {
    found.facts["time format"] = series_settings.text("time_format", format);
    found.facts["seconds between rows"] = table.step_s();
  }
  if (table.was_reversed) found.facts["order"] = "the rows descend in time and are read in reverse";
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

SeriesData::Metadata SeriesData::metadata() const {
  return {{"means", fmt::format("{}", fmt::join(scale_.means, ","))},
          {"deviations", fmt::format("{}", fmt::join(scale_.deviations, ","))},
          {names_of_columns, JsonValue(table_->names).dump()}};
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
