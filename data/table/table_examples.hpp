#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/table/table.hpp"
#include "data/table/table_columns.hpp"
#include "data/toys/friedman.hpp"

// Rows of a table as examples: columns that a model reads, and one that it predicts.
namespace tapestry {

enum class TargetKind { detected, classes, numbers };

struct TableExampleOptions : TableOptions {
  std::string label_field{};           // the column that is predicted; empty: find_label_column()
  std::vector<std::string> classes{};  // empty: as found
  TargetKind kind = TargetKind::detected;  // of the label
  std::vector<std::string> columns{};      // that are read; empty: all that can be
  std::vector<std::string> ignored{};      // that are not
  // Of a column whose times can be read in several formats; "auto": there is no such column.
  std::string time_format = "auto";
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
  std::int64_t unlabeled = 0, unassigned = 0, moved = 0;  // rows without a target; without a split
  std::vector<ColumnUse> uses{};
  std::vector<std::string> remarks{};
};

// Reads a table, or a folder with train.csv, validation.csv (or val, valid, dev) and test.csv.
// `trained` are the columns of a trained model, or null. A column `split` divides the rows; else a
// hash of each row does. Rows without a label or a split are left out. Throws as Table does,
// InputError for a missing column of `trained`, and OptionError of "label_field", "classes",
// "columns", "time_format" and "validation_fraction".
TableSplits load_table_examples(const std::string& path, const TableExampleOptions& options,
                                const TableColumns* trained = nullptr);

// Returns the splits of rows of numbers, the last of which is predicted. No row is for the test.
TableSplits table_of_numbers(const NumberRows& rows);

}  // namespace tapestry
