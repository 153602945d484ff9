#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/series/step.hpp"
#include "data/table/table.hpp"

namespace tapestry {

// Several series at the same times, one row after the other at one step.
struct SeriesTable {
  std::string path{};                  // path of the file, for messages
  std::vector<std::string> names{};    // M
  std::vector<Moment> times{};         // time of each row on the clock on the wall
  Array values{};                      // (rows, M) float64; NaN where nothing was measured
  TimeStep step{};                     // none: the rows follow no step, and have no season
  std::int64_t next_us = 0;            // time of the row after the last, on the wall
  bool has_times = true;               // false: the times are the numbers of the rows, from 0
  bool was_reversed = false;           // the last row of the file is the first in time
  std::int64_t inserted_rows = 0;      // that the file lacks; nothing is measured there
  std::int64_t repeated_rows = 0;      // left out, at a time that a row before them has
  std::int64_t clock_changes = 0;      // of daylight saving
  std::vector<std::string> remarks{};  // what was left out or decided while reading the table
  std::int64_t rows() const { return values.dim(0); }
  std::int64_t unmeasured() const;  // returns the number of values that were not measured
  bool has_step() const { return has_times && step; }
};

enum class MissingValues {
  refuse,
  previous,    // by rules 1: the last value before, or the first one of the series
  interpolate  // by rules 1: between the values before and after, by time
};

struct SeriesOptions : TableOptions {
  bool gaps = false;                   // by rules 1: rows may be missing
  std::string time_column{};           // its name, or no_times; empty: found (clock.hpp)
  std::string time_format = "auto";    // that of a TimeFormat; auto: found
  std::vector<std::string> columns{};  // the series that are read; empty: all other numbers
  // Columns that name the series of each row; empty: found, by rules 1 none.
  std::string series_column{};
  MissingValues missing = MissingValues::interpolate;
  // 1: rows are as the file has them, and missing values are filled. 2: rows that the step of the
  // times lacks are inserted, and what was not measured is NaN.
  std::int64_t rules = 2;
};

// Describes the files that load_series reads.
inline constexpr const char* series_files = "a CSV";

// Returns the options with what all rows of a table show. Throws as load_series() does.
SeriesOptions detect_format(const std::string& path, const SeriesOptions& options = {});

// Reads a table of numbers by time, plain or gzip, in any order of its rows: what `options` leaves
// open is detected. Series in memory (memory_folder.hpp) are such a table without times. In long
// form, a row is that of one series, and the columns become series named after it. Throws
// InputError as Table does, and for two columns of one name, series of different steps, and too few
// rows or many more missing ones than there are; OptionError of "missing_words" for a cell that is
// not a number, of "missing" for one without a value where they are refused, of "time_column" and
// "time_format" as find_clock() does, and of "columns", "time_column" or "series_column" for an
// unknown name.
SeriesTable load_series(const std::string& path, const SeriesOptions& options = {});

// Returns what the columns are taken for.
std::vector<ColumnUse> series_column_uses(const std::string& path, const SeriesOptions& options);

// Fills what was not measured, by rules 1: with the last value before it or, at the beginning, the
// first one after it; with MissingValues::interpolate, by the line between both. Throws OptionError
// of "missing" if missing values are refused, and of "columns" for a series without values.
void fill_missing(SeriesTable& table, MissingValues missing);

// Returns the time of a row, which may follow the table; without times, and behind the table
// without a step, "row 12", counted from 1.
std::string row_text(const SeriesTable& table, std::int64_t row);

// Returns the place of a step in a cycle of that many steps, from 0.
std::int64_t place_in_cycle(std::int64_t step, std::int64_t cycle);
// Returns the place of a row in a cycle of that many rows, from 0: by the steps from 1970-01-01
// 00:00 on the wall to its time, whatever the table begins with; without a step, by its number.
std::int64_t place_in_cycle(const SeriesTable& table, std::int64_t row, std::int64_t cycle);

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

// Returns the number of measured values of a series in these rows.
std::int64_t count_measured(const SeriesTable& table, std::int64_t series, const RowRange& rows);

// The scale of each of M series, which transforms it to mean 0 and variance 1: (x - mean) /
// deviation. A constant series has the deviation 1; one with fewer than two measured values, the
// mean 0 and the deviation 1.
struct SeriesScale {
  std::vector<double> means, deviations;

  static SeriesScale of(const SeriesTable& table, const RowRange& rows);
  Array apply(const Array& values) const;  // (…, M) -> (…, M) float32
  Array undo(const Array& values) const;   // (…, M) -> (…, M) float64, in the series' own units
};

// A data set of windows whose targets lie in `rows`, one starting at every row; their inputs may
// begin before.
// A batch: inputs (B, context, M), targets (B, horizon, K) float32; count: B · horizon · K, without
// targets that were not measured, which are NaN.
// Where values are missing, a window counts if half of its inputs and one of its targets were
// measured. Its other inputs are 0 before the series' first value, lie on a line between two
// measured ones of the window, and else are the last value before them.
class SeriesDataset final : public Dataset {
 public:
  struct Window {
    std::int64_t context = 96, horizon = 96;
    std::vector<std::int64_t> targets{};  // K indices of the series to forecast; empty: all
    bool interpolates = true;             // false: a missing input is the last value before it
    std::int64_t cycle = 0;               // of CyclePlaces, in rows; 0: batches have none
  };
  // values (rows, M) are shared by the splits of a table; `table`, which may be null, has the
  // values before they were scaled. Throws std::invalid_argument if no window fits, InputError if
  // none counts.
  SeriesDataset(Array values, const RowRange& rows, const Window& window,
                std::shared_ptr<const SeriesTable> table = nullptr);

  std::int64_t size() const override { return last_ - first_ + 1 - left_out_; }
  std::int64_t left_out() const { return left_out_; }  // windows that do not count
  const Window& window() const { return window_; }  // its targets are listed even if they are all
  Batch batch(std::span<const std::int64_t> examples) const override;
  // Returns 1 for each input of batch() that was measured, else 0; nothing if all of the table
  // were.
  std::optional<Array> measured_inputs(std::span<const std::int64_t> examples) const;
  void add_to(Checksum& sum) const override;
  bool add_examples_to(Checksum& sum) const override;
  const SeriesDataset* series() const override { return this; }
  // Returns the first row of the targets.
  std::int64_t target_row(std::int64_t example) const {
    return rows_.empty() ? first_ + example : rows_[example];
  }
  // Returns the inputs (context, M) before a row of values (rows, M), which may be the one after
  // the last.
  static Array inputs_before(const Array& values, std::int64_t row, const Window& window);
  std::int64_t end_row() const { return last_ + window_.horizon; }  // row after the last target
  const SeriesTable* table() const { return table_.get(); }         // may be null

 private:
  Array values_;
  std::shared_ptr<const SeriesTable> table_;
  Window window_;
  std::int64_t first_, last_;  // first rows of targets
  std::int64_t left_out_ = 0;
  std::vector<std::int32_t> rows_{};  // those of the windows that count; empty: all
  Array held_{};  // (rows, M): the last measured value up to a row, else 0; empty: none is missing

  void leave_out_windows();
  std::int32_t first_place(std::int64_t row) const;
};

}  // namespace tapestry
