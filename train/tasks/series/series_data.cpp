#include "train/tasks/series/series_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

constexpr const char* columns = "columns";  // name of the metadata

SeriesTable load(const Config& config) {
  switch (config[key::series_kind]) {
    case key::SeriesKind::csv: {
      const std::string& path = key::required_path(
          config, "no time series", std::string(series_files) + " with --set data.path=FILE");
      return with_keys(config, {{"gaps", key::gaps, "or set data.gaps = true"}},
                       [&] { return load_series(path, {.gaps = config[key::gaps]}); });
    }
    case key::SeriesKind::waves:
      key::expect_no_path(config);
      return make_waves({.series = config[key::num_waves],
                         .rows = config[key::wave_rows],
                         .noise = config[key::wave_noise],
                         .seed = seed_of(config)});
  }
  throw_unhandled(key::series_kind);
}

// Returns the numbers in a text, whatever the locale that a program sets.
std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<double> value = parse_number<double>(part);
    require(value.has_value(), "series: '{}' is not a number", part);
    values.push_back(*value);
  }
  return values;
}

}  // namespace

std::vector<KeyInfo> series_keys() {
  using namespace key;
  return {series_kind,         data_source,  num_waves,         wave_rows,
          wave_noise,          gaps,         split_by,          train_fraction,
          validation_fraction, train_months, validation_months, test_months};
}

SeriesTable recognize_series(Recognized& found, const std::string& path) {
  std::optional<SeriesTable> table;
  try {
    table = load_series(path);
  } catch (const OptionError& gap) {
    table = load_series(path, {.gaps = true});
    found.problems.emplace_back(gap.what());
    found.settings.push_back({key::gaps.name, true, "rows are missing"});
  }
  found.facts = {{"series", std::ssize(table->names)},
                 {"names", printable_beginning(fmt::format("{}", fmt::join(table->names, ", ")))},
                 {"rows", table->rows()},
                 {"first time", time_text(table->times.front())},
                 {"last time", time_text(table->times.back())},
                 {"seconds between rows", table->step_s()},
                 {"split", "70 % of the rows for training, 10 % for validation, 20 % for testing"}};
  found.settings.push_back({key::split_by.name, std::string("fractions"),
                            "the first 70 % for training, then 10 % for validation"});
  return *std::move(table);
}

SeriesScale kept_scale(const SeriesData::Metadata& trained) {
  return {numbers(kept_value(trained, "means")), numbers(kept_value(trained, "deviations"))};
}

std::vector<std::string> kept_names(const SeriesData::Metadata& trained) {
  return JsonValue::parse(kept_value(trained, columns)).get<std::vector<std::string>>();
}

SeriesData::SeriesData(const Config& config, const SeriesDataset::Window& window,
                       const Metadata& trained)
    : config_(config),
      window_(window),
      table_(std::make_shared<const SeriesTable>(load(config))),
      scale_(scale_from(trained)),
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
  require(names.size() == table_->names.size(), "{} names of {} series", names.size(),
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
          {columns, JsonValue(table_->names).dump()}};
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
  const SeriesRanges ranges =
      by_months ? with_keys(config_,
                            {{"months", key::train_months,
                              "lower the numbers of months, or set data.split = \"fractions\""}},
                            by_month)
                : split_by_fractions(*table_, train, validation);
  const auto [T, H] = window_;
  for (const auto& [name, range] : {std::pair{"training", ranges.train},
                                    {"validation", ranges.validation},
                                    {"test", ranges.test}})
    expect_input(
        std::max(range.begin, T) + H <= range.end,
        "{}: no window of model.context = {} and model.horizon = {} steps fits the {} split, "
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
