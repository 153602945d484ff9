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
  std::string path{};                 // of the file, for errors
  std::vector<std::string> names{};   // M
  std::vector<std::int64_t> times{};  // of the rows, in seconds since 1970-01-01, rising
  Array values{};                     // (rows, M) float32
  std::int64_t rows() const { return values.dim(0); }
  std::int64_t step_s() const;  // the shortest between two rows
};

struct SeriesOptions {
  bool gaps = false;  // rows may be missing
};

// Says what load_series reads.
inline constexpr const char* series_files = "a CSV";

// Reads a table in the format of its path. A CSV has a header, a first column of dates,
// "2016-07-01", or times, "2016-07-01 12:00[:00]", and others of numbers; plain or gzip. InputError
// names line and column: a cell that is empty or no number, another number of cells than the
// header's, too few rows, two columns of one name. OptionError of "gaps": a row's time is not a
// step after the last; with `gaps`, any later time will do.
SeriesTable load_series(const std::string& path, const SeriesOptions& options = {});

// "2016-07-01 12:00:00"
std::string time_text(std::int64_t time_s);

struct WaveOptions {
  std::int64_t series = 3, rows = 4000;
  double noise = 0.3;  // standard deviation; a wave's amplitude is 0.5 to 1
  std::uint64_t seed = 0;
};
// Series that are each a sum of three sine waves, of seeded periods from 6 to 60 rows, amplitudes
// and phases, and of normal noise, which nobody can forecast. A row an hour.
SeriesTable make_waves(const WaveOptions& options);

// Rows [begin, end) of a table.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};
struct SeriesRanges {
  RowRange train, validation, test;
};
// The first shares of the rows, and the rest to test on.
SeriesRanges split_by_fractions(const SeriesTable& table, double train, double validation);
// So many months of 30 days each, from the first row on (Zhou et al. 2021, arXiv 2012.07436, whose
// split of ETT is 12, 4 and 4). OptionError of "months" where the table is shorter.
struct Months {
  std::int64_t train = 12, validation = 4, test = 4;
};
SeriesRanges split_by_months(const SeriesTable& table, const Months& months);

// x -> (x - mean) / deviation, a pair for each of M series.
struct SeriesScale {
  std::vector<double> means, deviations;

  static SeriesScale of(const SeriesTable& table, const RowRange& rows);
  Array apply(const Array& values) const;  // (rows, M)
  double undo(double value, std::size_t series) const {
    return value * deviations[series] + means[series];
  }
};

// Windows whose targets lie in `rows`, one at every row: what is seen may begin before them.
// A batch: inputs (B, context, M), targets (B, horizon, M) float32; count B · horizon · M.
class SeriesDataset final : public Dataset {
 public:
  struct Window {
    std::int64_t context = 96, horizon = 96;
  };
  // values (rows, M), shared by the splits of a table. std::invalid_argument where none fits.
  // `table`: what the values were scaled from, if that is to be known.
  SeriesDataset(Array values, const RowRange& rows, const Window& window,
                std::shared_ptr<const SeriesTable> table = nullptr);

  std::int64_t size() const override { return last_ - first_ + 1; }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  std::int64_t target_row(std::int64_t example) const { return first_ + example; }  // its first
  std::int64_t end_row() const { return last_ + window_.horizon; }  // after the last target
  const SeriesTable* table() const { return table_.get(); }         // may be null

 private:
  Array values_;
  std::shared_ptr<const SeriesTable> table_;
  Window window_;
  std::int64_t first_, last_;  // first rows of targets
};

}  // namespace tapestry
