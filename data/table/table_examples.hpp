#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/dataset.hpp"
#include "data/table/table.hpp"
#include "data/toys/friedman.hpp"

// Rows of a table as examples: columns that a model reads, and one that it predicts.
namespace tapestry {

// Knots of a monotone map of numbers: (number, scaled number), ascending.
using Knots = std::vector<std::pair<double, double>>;
// Returns the number that has this score.
double unscaled(const Knots& knots, double score);

// A column that a model reads.
struct InputColumn {
  std::string name{};
  bool is_time = false;  // a number of days since 1970
  // Of a number: it is scaled so that those of the training are about normally distributed, by
  // linear interpolation between quantiles. The first and the last knot are the range.
  Knots knots{};
  bool has_mask = false;  // a number is missing in the training: a further input is 1 where it is
  // Of categories: the texts of the training. The input is the index from 1, or 0 for a missing or
  // another one.
  std::optional<std::vector<std::string>> categories{};
};

// The column that is predicted: one of classes, or of numbers.
struct TargetColumn {
  std::string name{};
  std::vector<std::string> classes{};  // empty: numbers
  double mean = 0, deviation = 1;      // of the numbers of the training, by which they are scaled
};

// How rows become examples, as a checkpoint stores it.
struct TableColumns {
  std::vector<InputColumn> inputs{};
  TargetColumn target{};

  // Returns the number of numbers (with masks), which come first in an example, and of all inputs.
  std::int64_t numbers() const;
  std::int64_t width() const;
  // Returns for each number the edges of up to `bins` bins with equal numbers of training examples.
  std::vector<std::vector<double>> edges(std::int64_t bins) const;
  std::vector<std::int64_t> category_counts() const;  // with the one for others
  std::string to_json() const;
  // Throws InputError for damaged JSON.
  static TableColumns from_json(const std::string& json);
};

enum class TargetKind { detected, classes, numbers };

struct TableExampleOptions : TableOptions {
  std::string label_field{};           // the column that is predicted; empty: find_label_column()
  std::vector<std::string> classes{};  // empty: as found
  TargetKind kind = TargetKind::detected;  // of the label
  std::vector<std::string> columns{};      // that are read; empty: all that can be
  std::vector<std::string> ignored{};      // that are not
  double validation_share = 0.15, test_share = 0.15;
  bool whole = false;  // all rows are the validation split
  bool explains = false;
};

// Examples of a split. A batch: inputs (B, F) float32, numbers before indices of categories;
// targets (B) int32 of classes, or (B, 1) float32 of scaled numbers.
class TableDataset final : public Dataset {
 public:
  TableDataset(Array inputs, Array targets);

  std::int64_t size() const override { return inputs_.dim(0); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool has_single_examples() const override { return true; }
  const Array& inputs() const { return inputs_; }
  const Array& targets() const { return targets_; }

 private:
  Array inputs_, targets_;
};

struct TableSplits {
  TableExampleOptions options{};  // with what was found
  TableColumns columns{};
  std::optional<TableDataset> train{}, validation{}, test{};
  std::int64_t unlabeled = 0, moved = 0;
  std::vector<ColumnUse> uses{};
  std::vector<std::string> remarks{};
};

// Reads a table, or a folder with train.csv, validation.csv (or val, valid, dev) and test.csv.
// `trained` are the columns of a trained model, or null. A column `split` divides the rows; else a
// hash of each row does. Rows without a label are left out. Throws as Table does, InputError for a
// missing column of `trained`, and OptionError of "label_field", "classes", "columns" and
// "validation_fraction".
TableSplits load_table_examples(const std::string& path, const TableExampleOptions& options,
                                const TableColumns* trained = nullptr);

// Returns the splits of rows of numbers, the last of which is predicted. No row is for the test.
TableSplits table_of_numbers(const NumberRows& rows);

// Encodes cells as inputs, for predictions.
class RowEncoder {
 public:
  RowEncoder(const TableColumns& columns, const NumberFormat& format);

  // Sets the inputs of a row, `cells` those of the columns in their order. Returns what is unusual:
  // "" or "price: outside 0 to 12". Throws InputError for a text where a number was.
  std::string encode(std::span<const std::string> cells, float* inputs) const;

 private:
  const TableColumns& columns_;
  NumberFormat format_;
  std::vector<std::unordered_map<std::string, std::int32_t>> categories_{};
};

}  // namespace tapestry
