#pragma once

#include <memory>
#include <optional>

#include "data/series/series.hpp"
#include "train/config/settings.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"

namespace tapestry {

enum class SeriesKind { waves, csv };
enum class SplitBy { fractions, months };

// The time series of a config: synthetic waves, or the CSV file of data.path, and their splits.
struct SeriesSettings : SeriesOptions {
  SeriesKind kind = SeriesKind::waves;
  std::string path{}, source{};
  WaveOptions waves{};
  std::vector<std::string> targets{};  // names of the series that are forecast; empty: all
  SplitBy split = SplitBy::fractions;
  double train_fraction = 0.7, validation_fraction = 0.1;
  Months months{};
};

extern const SettingsOf<SeriesSettings> series_settings;

// Detects the format of the CSV file of data.path, if it exists, as TaskSpec::detect does.
void detect_series(Config& config);

// Returns the table of a CSV file, and sets its facts and the keys that read and split it. Throws
// InputError if it is not a table of numbers by time, and Undecided if a setting must say how it is
// read.
SeriesTable recognize_series(Recognized& found, const UserData& data);

// Returns the indices of data.targets among data.columns. Throws InputError for a name that is not
// among them, or is given twice.
std::vector<std::int64_t> target_indices(const Given<SeriesSettings>& given);

// Returns the number of series. Throws InputError if no file shows it and data.columns is empty.
std::int64_t count_series(const Given<SeriesSettings>& given);

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
  SeriesData(const Given<SeriesSettings>& given, const SeriesDataset::Window& window,
             const Metadata& trained, bool whole = false);

  const SeriesTable& targets() const { return targets_; }  // the series that are forecast
  const SeriesScale& target_scale() const { return target_scale_; }
  const Array& values() const { return values_; }  // (rows, M) of all series, standardized
  // Returns the model's inputs (context, M) before a row.
  Array inputs_before(std::int64_t row) const;
  // Returns the place (1) of the first of these inputs in the model's cycle; an empty array
  // without.
  Array place_before(std::int64_t row) const;
  // Returns whether a target was measured in a row of [begin, end).
  bool is_target_measured(std::int64_t target, std::int64_t begin, std::int64_t end) const;
  Metadata metadata() const;
  // Return what was not measured, as Task does.
  std::string remark() const;
  std::int64_t unmeasured() const { return table_->unmeasured(); }

  struct Splits {
    SeriesDataset train, validation, test;
  };
  // Makes the splits at the first call. Throws InputError if one is too short for a window.
  const Splits& splits();

 private:
  SeriesRanges ranges() const;
  SeriesScale scale_from(const Metadata& trained) const;
  void expect_columns(const Metadata& trained) const;

  Given<SeriesSettings> given_;
  bool whole_;
  SeriesDataset::Window window_;
  std::shared_ptr<const SeriesTable> table_;
  SeriesTable targets_;
  SeriesScale scale_, target_scale_;
  Array values_;
  std::optional<Splits> splits_;
};

}  // namespace tapestry
