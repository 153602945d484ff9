#pragma once

#include <memory>
#include <optional>

#include "data/series/series.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"

namespace tapestry {

// The keys of time series, synthetic or from data.path, and of their splits.
namespace key {

enum class SeriesKind { waves, csv };
inline const Choice<SeriesKind> series_kind{
    "data.kind",
    SeriesKind::waves,
    "synthetic waves, or the CSV file of data.path",
    {{"waves", SeriesKind::waves}, {"csv", SeriesKind::csv}}};
inline const Condition of_waves = series_kind.is(SeriesKind::waves);
inline const Key<std::int64_t> num_waves{"data.series",
                                         3,
                                         "number of synthetic series",
                                         {.low = 1, .high = 1000, .used_if = {of_waves}}};
inline const Key<std::int64_t> wave_rows{"data.rows",
                                         4000,
                                         "rows of the synthetic series",
                                         {.low = 2, .high = 1e7, .used_if = {of_waves}}};
inline const Key<double> wave_noise{"data.noise",
                                    0.3,
                                    "standard deviation of the noise of the synthetic series",
                                    {.low = 0, .high = 100, .used_if = {of_waves}}};
inline const Key<bool> gaps{"data.gaps",
                            false,
                            "allow missing rows in the CSV file, such as weekends",
                            {.used_if = {series_kind.is(SeriesKind::csv)}}};
inline const Condition of_csv = series_kind.is(SeriesKind::csv);
inline const Choice<char> delimiter{"data.delimiter",
                                    detected,
                                    "character between the cells of the CSV file",
                                    {{"auto", detected}, {",", ','}, {";", ';'}, {"tab", '\t'}},
                                    {of_csv}};
inline const Choice<char> decimal{"data.decimal",
                                  detected,
                                  "decimal mark of the numbers in the CSV file",
                                  {{"auto", detected}, {".", '.'}, {",", ','}},
                                  {of_csv}};
inline const Key<std::string> time_column{
    "data.time_column",
    "",
    "name of the column of times; none: there is none, and rows are numbered; empty: detected",
    {.used_if = {of_csv}}};
inline const Choice<TimeFormat> time_format{"data.time_format",
                                            TimeFormat::detected,
                                            "format of the times: 2016-07-31 [12:00[:00]] (iso), "
                                            "31.07.2016 [12:00] (day-first), seconds or "
                                            "milliseconds since 1970 (unix, unix-ms)",
                                            {{"auto", TimeFormat::detected},
                                             {"iso", TimeFormat::iso},
                                             {"day-first", TimeFormat::day_first},
                                             {"unix", TimeFormat::unix_seconds},
                                             {"unix-ms", TimeFormat::unix_milliseconds}},
                                            {of_csv}};
inline const Key<std::vector<std::string>> columns{
    "data.columns",
    {},
    "names of the columns that are read as series; empty: all but those of times and of names",
    {.used_if = {of_csv}}};
inline const Key<std::string> series_column{
    "data.series_column",
    "",
    "name of a column that names the series of each row, for files with a row per series and time; "
    "empty: none",
    {.used_if = {of_csv}}};
inline const Key<std::vector<std::string>> targets{
    "data.targets",
    {},
    "names of the series that are forecast, each from all series of data.columns; empty: all, each "
    "from its own past",
    {.used_if = {of_csv, series_column.is("")}}};
inline const Choice<MissingValues> missing{
    "data.missing",
    MissingValues::refuse,
    "what replaces cells without a value: nothing (refuse), the last value (previous), or a line "
    "between the values before and after (interpolate)",
    {{"refuse", MissingValues::refuse},
     {"previous", MissingValues::previous},
     {"interpolate", MissingValues::interpolate}},
    {of_csv}};
enum class SplitBy { fractions, months };
inline const Choice<SplitBy> split_by{
    "data.split",
    SplitBy::fractions,
    "how the rows are divided into training, validation and test split, in this order",
    {{"fractions", SplitBy::fractions}, {"months", SplitBy::months}}};
inline const Condition by_fractions = split_by.is(SplitBy::fractions),
                       by_months = split_by.is(SplitBy::months);
inline const Key<double> train_fraction{"data.train_fraction",
                                        0.7,
                                        "fraction of the rows in the training split",
                                        {.low = 0.01, .high = 0.98, .used_if = {by_fractions}}};
inline const Key<double> validation_fraction{
    "data.validation_fraction",
    0.1,
    "fraction of the rows in the validation split",
    {.low = 0.01, .high = 0.98, .used_if = {by_fractions}}};
inline const Key<std::int64_t> train_months{"data.train_months",
                                            12,
                                            "length of the training split, in months of 30 days",
                                            {.low = 1, .high = 12000, .used_if = {by_months}}};
inline const Key<std::int64_t> validation_months{
    "data.validation_months",
    4,
    "length of the validation split, in months of 30 days",
    {.low = 1, .high = 12000, .used_if = {by_months}}};
inline const Key<std::int64_t> test_months{"data.test_months",
                                           4,
                                           "length of the test split, in months of 30 days",
                                           {.low = 1, .high = 12000, .used_if = {by_months}}};

}  // namespace key

std::vector<KeyInfo> series_keys();

// Detects the format of the CSV file of data.path, if it exists, as TaskSpec::detect does.
void detect_series(Config& config);

// Returns the table of a CSV file, and sets its facts and the keys that read and split it. Throws
// InputError if it is not a table of numbers by time.
SeriesTable recognize_series(Recognized& found, const std::string& path);

// Returns the indices of data.targets among data.columns. Throws InputError for a name that is not
// among them, or is given twice.
std::vector<std::int64_t> target_indices(const Config& config);

// Return the scale and the names of the series that a model was trained on, from a checkpoint's
// metadata: of the series with these indices, or of all if `series` is empty. Throw
// std::invalid_argument if they are missing.
SeriesScale kept_scale(const std::map<std::string, std::string>& trained,
                       const std::vector<std::int64_t>& series = {});
std::vector<std::string> kept_names(const std::map<std::string, std::string>& trained,
                                    const std::vector<std::int64_t>& series = {});

// The series of a task, standardized by the mean and standard deviation of the training rows, which
// a checkpoint stores.
class SeriesData {
 public:
  using Metadata = std::map<std::string, std::string>;

  // `trained` is a checkpoint's metadata, or empty. If `whole`, each split has all rows. Throws
  // InputError that names file, line and column, or the key.
  SeriesData(const Config& config, const SeriesDataset::Window& window, const Metadata& trained,
             bool whole = false);

  const SeriesTable& targets() const { return targets_; }  // the series that are forecast
  const SeriesScale& target_scale() const { return target_scale_; }
  const Array& values() const { return values_; }  // (rows, M) of all series, standardized
  Metadata metadata() const;

  struct Splits {
    SeriesDataset train, validation, test;
  };
  // Makes the splits at the first call. Throws InputError if one is too short for a window.
  const Splits& splits();

 private:
  SeriesRanges ranges() const;
  SeriesScale scale_from(const Metadata& trained) const;
  void expect_columns(const Metadata& trained) const;

  Config config_;
  bool whole_;
  SeriesDataset::Window window_;
  std::shared_ptr<const SeriesTable> table_;
  SeriesTable targets_;
  SeriesScale scale_, target_scale_;
  Array values_;
  std::optional<Splits> splits_;
};

}  // namespace tapestry
