#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/csv.hpp"
#include "data/dataset.hpp"
#include "data/series/times.hpp"

namespace tapestry {

// Several series that were measured at the same times.
struct SeriesTable {
  std::string path{};                 // path of the file, for messages
  std::vector<std::string> names{};   // M
  std::vector<std::int64_t> times{};  // time of each row, in seconds since 1970-01-01, ascending
  Array values{};                     // (rows, M) float32
  bool has_times = true;              // false: the times are the numbers of the rows, from 0
  bool was_reversed = false;          // the last row of the file is the first in time
  std::int64_t rows() const { return values.dim(0); }
  std::int64_t step_s() const;  // returns the shortest interval between two rows, in seconds
};

enum class MissingValues {
  refuse,
  previous,    // the last value before, or the first one of the series
  interpolate  // between the values before and after, by time
};
inline constexpr const char* no_times = "none";

struct SeriesOptions {
  bool gaps = false;          // rows may be missing
  char delimiter = detected;  // ',', ';' or a tab
  char decimal = detected;    // '.' or ','
  std::string time_column{};  // its name, or no_times; empty: detected
  TimeFormat time_format = TimeFormat::detected;
  std::vector<std::string> columns{};  // the series that are read; empty: all other columns
  std::string series_column{};         // a column that names the series of each row; empty: none
  MissingValues missing = MissingValues::refuse;
};

// Describes the files that load_series reads.
inline constexpr const char* series_files = "a CSV";

// Returns the options with what the header and the first 1000 rows of a CSV show: a delimiter, a
// decimal mark, the first column of times and their format. Throws InputError if the file cannot be
// read, or has a cell whose quotes do not end.
SeriesOptions detect_format(const std::string& path, const SeriesOptions& options = {});

// Reads a table of numbers by time from a CSV, plain or gzip, with a header. What `options` leaves
// open is detected. Rows whose times descend are reversed. With a series_column, a row is that of
// one series, and the columns become series named after it. Throws InputError with line and column
// for a wrong number of cells, a time that is not later than the last, too few rows, or two columns
// of one name; OptionError of "columns" for a cell that is not a number, of "missing" for one
// without a value, of "time_column" for a time that cannot be read, of "gaps" if a row does not
// follow the last at the interval of the first two rows, and of "columns", "time_column" or
// "series_column" for an unknown name.
SeriesTable load_series(const std::string& path, const SeriesOptions& options = {});

// Returns the names of the columns that load_series() reads as series. Throws what load_series()
// throws for the header.
std::vector<std::string> series_columns(const std::string& path, const SeriesOptions& options);

enum class ColumnKind {
  numbers,  // each cell is a number or without a value
  texts     // a cell is neither
};
// Returns the names of the columns of a kind, without those of times and series. Throws InputError
// as detect_format() does.
std::vector<std::string> columns_with(ColumnKind kind, const std::string& path,
                                      const SeriesOptions& options);

// Returns the messages of all rows for which load_series() throws, one for each. Throws what
// load_series() throws for the header.
std::vector<std::string> find_problems(const std::string& path, const SeriesOptions& options);

// Returns the time of a row, which may follow the table; without times "row 12", counted from 1.
std::string row_text(const SeriesTable& table, std::int64_t row);

// Returns the number of rows of a season: a day if a row follows the last after less than a day, a
// week of days, or a year of months; 0 if it is unknown or longer than `context` rows.
std::int64_t season_of(std::int64_t step_s, std::int64_t context);

struct WaveOptions {
  std::int64_t series = 3, rows = 4000;
  double noise = 0.3;  // standard deviation; a wave's amplitude is 0.5 to 1
  std::uint64_t seed = 0;
};
// Returns synthetic series, each the sum of three sine waves with seeded periods of 6 to 60 rows,
// amplitudes and phases, and of normal noise. One row per hour. Throws std::invalid_argument for
// fewer than one series or two rows.
SeriesTable make_waves(const WaveOptions& options);

// Rows [begin, end) of a table.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};
struct SeriesRanges {
  RowRange train, validation, test;
};
// Returns the first fraction `train` of the rows for training, the next fraction `validation` for
// validation, and the rest for testing.
SeriesRanges split_by_fractions(const SeriesTable& table, double train, double validation);
struct Months {
  std::int64_t train = 12, validation = 4, test = 4;
};
// Returns splits of these numbers of months of 30 days, from the first row on (Zhou et al. 2021,
// arXiv 2012.07436, whose split of ETT is 12, 4 and 4). Throws OptionError of "train_months" if the
// table is shorter.
SeriesRanges split_by_months(const SeriesTable& table, const Months& months);

// The scale of each of M series, which transforms it to mean 0 and variance 1: (x - mean) /
// deviation. A constant series has the deviation 1.
struct SeriesScale {
  std::vector<double> means, deviations;

  static SeriesScale of(const SeriesTable& table, const RowRange& rows);
  Array apply(const Array& values) const;  // (…, M) -> (…, M) float32
  Array undo(const Array& values) const;   // (…, M) -> (…, M) float32, in the series' own units
};

// A data set of windows whose targets lie in `rows`, one starting at every row; their inputs may
// begin before.
// A batch: inputs (B, context, M), targets (B, horizon, K) float32; count B · horizon · K.
class SeriesDataset final : public Dataset {
 public:
  struct Window {
    std::int64_t context = 96, horizon = 96;
    std::vector<std::int64_t> targets{};  // K indices of the series to forecast; empty: all
  };
  // values (rows, M) are shared by the splits of a table; `table`, which may be null, has the
  // values before they were scaled. Throws std::invalid_argument if no window fits.
  SeriesDataset(Array values, const RowRange& rows, const Window& window,
                std::shared_ptr<const SeriesTable> table = nullptr);

  std::int64_t size() const override { return last_ - first_ + 1; }
  const Window& window() const { return window_; }  // its targets are listed even if they are all
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool add_examples_to(Checksum& sum) const override;
  const SeriesDataset* series() const override { return this; }
  // Returns the first row of the targets.
  std::int64_t target_row(std::int64_t example) const { return first_ + example; }
  std::int64_t end_row() const { return last_ + window_.horizon; }  // row after the last target
  const SeriesTable* table() const { return table_.get(); }         // may be null

 private:
  Array values_;
  std::shared_ptr<const SeriesTable> table_;
  Window window_;
  std::int64_t first_, last_;  // first rows of targets
};

}  // namespace tapestry
