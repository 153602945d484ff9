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

SeriesOptions options_of(const Config& config) {
  return {.gaps = config[key::gaps],
          .delimiter = config[key::delimiter],
          .decimal = config[key::decimal],
          .time_column = config[key::time_column],
          .time_format = config[key::time_format],
          .columns = config[key::columns],
          .series_column = config[key::series_column],
          .missing = config[key::missing]};
}

// Returns what `read` returns. An OptionError is thrown again with the key of the option.
auto with_series_keys(const Config& config, const auto& read) {
  return with_keys(
      config,
      {{"gaps", key::gaps, "or set data.gaps = true"},
       {"missing", key::missing, "or set data.missing to \"interpolate\" or \"previous\""},
       {"columns", key::columns, "or list other columns in this key"},
       {"time_column", key::time_column, "give the name of the column of times, or \"none\""},
       {"series_column", key::series_column,
        "or give the column that names the series of each row"}},
      read);
}

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
const std::string& required_csv(const Config& config) {
  return key::required_path(config, "no time series",
                            std::string(series_files) + " with --set data.path=FILE");
}

SeriesTable load_csv(const Config& config) {
  const std::string& path = required_csv(config);
  const SeriesOptions options = options_of(config);
  try {
    return with_series_keys(config, [&] { return load_series(path, options); });
  } catch (const InputError& error) {
    const std::vector<std::string> all = problems_of(path, options);
    if (all.size() < 2) throw;
    throw WrongRows(fmt::format("{}; {} have problems: `tapestry init FILE` lists them",
                                error.what(), counted(std::ssize(all), "row")),
                    first_problems(all));
  }
}

SeriesTable load(const Config& config) {
  switch (config[key::series_kind]) {
    case key::SeriesKind::csv:
      return load_csv(config);
    case key::SeriesKind::waves:
      key::expect_no_path(config);
      return make_waves({.series = config[key::num_waves],
                         .rows = config[key::wave_rows],
                         .noise = config[key::wave_noise],
                         .seed = seed_of(config)});
  }
  throw_unhandled(key::series_kind);
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

std::vector<KeyInfo> series_keys() {
  using namespace key;
  return {series_kind,    data_source,         num_waves,    wave_rows,         wave_noise,
          gaps,           delimiter,           decimal,      time_column,       time_format,
          columns,        series_column,       targets,      missing,           split_by,
          train_fraction, validation_fraction, train_months, validation_months, test_months};
}

void detect_series(Config& config) {
  const std::string& path = config[key::data_path];
  std::error_code unseen;
  if (config[key::series_kind] != key::SeriesKind::csv || path.empty() ||
      !std::filesystem::is_regular_file(path, unseen))
    return;
  const SeriesOptions found = detect_format(path, options_of(config));
  config.detect(key::delimiter, found.delimiter);
  config.detect(key::decimal, found.decimal);
  config.detect(key::time_column, found.time_column);
  config.detect(key::time_format, found.time_format);
  if (!config[key::targets].empty() && config[key::columns].empty())
    config.detect(key::columns,
                  with_series_keys(config, [&] { return series_columns(path, found); }));
}

std::vector<std::int64_t> target_indices(const Config& config) {
  const std::vector<std::string>&columns = config[key::columns], &targets = config[key::targets];
  if (targets.empty()) return {};
  if (columns.empty()) {
    const std::string& path = required_csv(config);
    std::error_code unseen;
    config.fail(key::targets,
                std::filesystem::is_regular_file(path, unseen)
                    ? "data.columns is empty; list the series in data.columns"
                    : fmt::format("data.columns is empty, and {} is not a file whose columns can "
                                  "be read; give a CSV file, or list the series in data.columns",
                                  shown(path)));
  }
  std::vector<std::int64_t> indices;
  for (const std::string& name : targets) {
    const auto found = std::ranges::find(columns, name);
    config.expect(found != columns.end(), key::targets,
                  "no series is named {}; expected one of data.columns: {}", shown(name),
                  list_briefly(columns));
    indices.push_back(found - columns.begin());
    config.expect(std::ranges::count(targets, name) == 1, key::targets,
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
  SeriesOptions options;
  for (int changes = 0;; ++changes) try {
      return load_series(path, options);
    } catch (const OptionError& error) {
      if (changes == 0) found.problems = first_problems(find_problems(path, options));
      if (error.option == "gaps" && !options.gaps) {
        options.gaps = true;
        found.settings.push_back({key::gaps.name, true, "rows are missing"});
      } else if (error.option == "missing" && options.missing == MissingValues::refuse) {
        options.missing = MissingValues::interpolate;
        found.settings.push_back(
            {key::missing.name, key::missing.name_of(options.missing), "cells have no value"});
      } else if (error.option == "columns" && options.columns.empty()) {
        options.columns = columns_with(ColumnKind::numbers, path, options);
        if (options.columns.empty()) throw;
        found.settings.push_back({key::columns.name, options.columns, "the others have texts"});
      } else if (error.option == "series_column" && options.series_column.empty()) {
        options.series_column = column_of_names(path, options);
        if (options.series_column.empty()) throw;
        found.settings.push_back(
            {key::series_column.name, options.series_column, "names the series of each row"});
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
  const SeriesOptions format = detect_format(path);
  found.facts = {{"series", std::ssize(table.names)},
                 {"names", printable_beginning(fmt::format("{}", fmt::join(table.names, ", ")))},
                 {"rows", table.rows()},
                 {"delimiter", key::delimiter.name_of(format.delimiter)},
                 {"decimal mark", key::decimal.name_of(format.decimal)},
                 {"time column", printable(format.time_column)},
                 {"first time", row_text(table, 0)},
                 {"last time", row_text(table, table.rows() - 1)},
                 {"split", "70 % of the rows for training, 10 % for validation, 20 % for testing"}};
  if (table.has_times) {
    found.facts["time format"] = key::time_format.name_of(format.time_format);
    found.facts["seconds between rows"] = table.step_s();
  }
  if (table.was_reversed) found.facts["order"] = "the rows descend in time and are read in reverse";
  found.settings.push_back({key::split_by.name, std::string("fractions"),
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

SeriesData::SeriesData(const Config& config, const SeriesDataset::Window& window,
                       const Metadata& trained, bool whole)
    : config_(config),
      whole_(whole),
      window_(window),
      table_(std::make_shared<const SeriesTable>(load(config))),
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
  const bool by_months = config_[key::split_by] == key::SplitBy::months;
  const double train = config_[key::train_fraction], validation = config_[key::validation_fraction];
  config_.expect(
      by_months || train + validation < 1, key::validation_fraction,
      "the sum with data.train_fraction = {} must be below 1, so that a test split is left", train);
  const auto by_month = [&] {
    return split_by_months(*table_, {.train = config_[key::train_months],
                                     .validation = config_[key::validation_months],
                                     .test = config_[key::test_months]});
  };
  const RowRange all{0, table_->rows()};
  const SeriesRanges ranges =
      whole_      ? SeriesRanges{all, all, all}
      : by_months ? with_keys(config_,
                              {{"months", key::train_months,
                                "lower the numbers of months, or set data.split = \"fractions\""}},
                              by_month)
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
