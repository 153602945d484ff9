#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

inline constexpr std::int64_t day_s = 86400;

// Several series that were measured at the same times.
struct SeriesTable {
  std::string path{};                 // path of the file, for messages
  std::vector<std::string> names{};   // M
  std::vector<std::int64_t> times{};  // time of each row, in seconds since 1970-01-01, ascending
  Array values{};                     // (rows, M) float32
  std::int64_t rows() const { return values.dim(0); }
  std::int64_t step_s() const;  // the shortest interval between two rows, in seconds
};

struct SeriesOptions {
  bool gaps = false;  // rows may be missing
};

// Describes the files that load_series reads.
inline constexpr const char* series_files = "a CSV";

// Reads a table in the format of its path. A CSV, plain or gzip, has a header, a first column of
// dates, "2016-07-01", or times, "2016-07-01 12:00[:00]", and further columns of numbers. Throws
// InputError with line and column for an empty cell, a cell that is not a number, a wrong number of
// cells, too few rows, or two columns of one name; OptionError of "gaps" if a row does not follow
// the last at the interval of the first two rows. With `gaps`, any later time is accepted.
SeriesTable load_series(const std::string& path, const SeriesOptions& options = {});

// Returns a time as in "2016-07-01 12:00:00".
std::string time_text(std::int64_t time_s);

struct WaveOptions {
  std::int64_t series = 3, rows = 4000;
  double noise = 0.3;  // standard deviation; a wave's amplitude is 0.5 to 1
  std::uint64_t seed = 0;
};
// Returns synthetic series, each the sum of three sine waves with seeded periods of 6 to 60 rows,
// amplitudes and phases, and of normal noise. One row per hour.
SeriesTable make_waves(const WaveOptions& options);

// Rows [begin, end) of a table.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};
struct SeriesRanges {
  RowRange train, validation, test;
};
// Returns the first fractions of the rows for training and validation, and the rest for testing.
SeriesRanges split_by_fractions(const SeriesTable& table, double train, double validation);
struct Months {
  std::int64_t train = 12, validation = 4, test = 4;
};
// Returns splits of these numbers of months of 30 days, from the first row on (Zhou et al. 2021,
// arXiv 2012.07436, whose split of ETT is 12, 4 and 4). Throws OptionError of "months" if the table
// is shorter.
SeriesRanges split_by_months(const SeriesTable& table, const Months& months);

// The scale of each of M series, which transforms it to mean 0 and variance 1: (x - mean) /
// deviation. A constant series has the deviation 1.
struct SeriesScale {
  std::vector<double> means, deviations;

  static SeriesScale of(const SeriesTable& table, const RowRange& rows);
  Array apply(const Array& values) const;  // (…, M) -> (…, M) float32
  Array undo(const Array& values) const;   // (…, M) -> (…, M) float32, in the series' own units
};

// Windows whose targets lie in `rows`, one starting at every row; their inputs may begin before.
// A batch: inputs (B, context, M), targets (B, horizon, M) float32; count B · horizon · M.
class SeriesDataset final : public Dataset {
 public:
  struct Window {
    std::int64_t context = 96, horizon = 96;
  };
  // values (rows, M) are shared by the splits of a table; `table`, which may be null, has the
  // values before they were scaled. Throws std::invalid_argument if no window fits.
  SeriesDataset(Array values, const RowRange& rows, const Window& window,
                std::shared_ptr<const SeriesTable> table = nullptr);

  std::int64_t size() const override { return last_ - first_ + 1; }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  const SeriesDataset* series() const override { return this; }
  // first row of the targets
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
