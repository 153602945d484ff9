#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/table/table_examples.hpp"
#include "train/config/settings.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"
#include "train/tasks/classification.hpp"

namespace tapestry {

enum class TableKind { csv, friedman };

// The table of a config.
struct TableSettings : TableExampleOptions {
  TableKind kind_of_data = TableKind::csv;
  std::string path{}, source{};
  std::uint64_t seed = 0;
  std::int64_t examples = 1000, held_back = 1000;  // numbers of synthetic rows
  ClassWeights class_weights = ClassWeights::none;
};

extern const SettingsOf<TableSettings> table_settings;

// Detects how the table is written, its columns and classes, as TaskSpec::detect does.
void detect_table(Config& config);

// Returns what is found at a path, as TaskSpec::recognize does.
std::vector<Recognized> recognize_table(const UserData& data);

// The rows of a task, and how they become examples.
class TableData {
 public:
  using Metadata = std::map<std::string, std::string>;

  explicit TableData(const TaskSetup& setup);

  const TableColumns& columns() const { return columns_; }
  const TargetColumn& target() const { return columns_.target; }
  bool has_classes() const { return !columns_.target.classes.empty(); }
  ClassWeights class_weights() const { return given_.class_weights; }
  // Reads the rows at the first call. Throws InputError as load_table_examples() does.
  const TableSplits& splits();
  bool is_read() const { return splits_.has_value(); }
  Metadata metadata() const { return {{"columns", columns_.to_json()}}; }
  std::string remark() const;
  // Returns how rows that may have no answer are read.
  PredictorInput predictor_input() const;
  RowEncoder encoder() const { return {columns_, given_}; }

 private:
  Given<TableSettings> given_;
  bool whole_;
  std::optional<TableColumns> trained_{};  // those of a trained model
  std::optional<TableSplits> splits_{};
  TableColumns columns_{};
};

}  // namespace tapestry
