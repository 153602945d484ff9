#include <fmt/format.h>

#include <algorithm>

#include "autograd/counted.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/outlier.hpp"
#include "data/series/series.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "train/tools/doctor/check.hpp"

// A check of the numbers of a data set: that they are finite, do not stand for missing values, are
// not constant, and are the same whenever they are read.
namespace tapestry {
namespace {

// Maximum number of values to read from a split.
constexpr std::int64_t most_column_numbers = 2'000'000;

struct Column {
  std::string name{};  // "column 3 of 7 of the inputs"
  std::vector<float> values{};
};

// Appends an example's numbers to columns, by the index of its last axis.
void add(std::vector<Column>& columns, const Array& numbers, const char* what) {
  if (numbers.dtype() != DType::float32 || numbers.rank() < 2) return;
  const auto width = static_cast<std::size_t>(numbers.dim(-1));
  for (std::size_t c = columns.size(); c < width; ++c)
    columns.push_back({.name = fmt::format("column {} of {} of the {}", c + 1, width, what)});
  const auto values = numbers.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) columns[i % width].values.push_back(values[i]);
}

// Returns the number of examples to read. Each node of a single graph has the features of all
// nodes.
std::int64_t examples_to_read(const Batch& one) {
  const auto* graph = one.find<GraphPart>();
  if (graph && graph->first_nodes.empty()) return 1;
  const std::int64_t numbers = one.inputs.size() + one.targets.size();
  return std::max<std::int64_t>(1, most_column_numbers / std::max<std::int64_t>(1, numbers));
}

std::vector<Column> columns_of(const std::vector<const Dataset*>& splits) {
  std::vector<Column> columns, of_targets;
  for (const Dataset* split : splits) {
    const Batch first = split->batch(std::vector<std::int64_t>{0});
    for (const std::int64_t example : evenly(split->size(), examples_to_read(first))) {
      const Batch one = split->batch(std::vector{example});
      add(columns, one.inputs, "inputs");
      add(of_targets, one.targets, "targets");
    }
  }
  std::ranges::move(of_targets, std::back_inserter(columns));
  return columns;
}

Fault sentinel_fault(const Outlier& outlier, const std::string& where) {
  return {
      fmt::format("the value {:.6g} occurs {} in {}; all others there are between "
                  "{:.6g} and {:.6g}",
                  outlier.value, counted(outlier.count, "time"), where, outlier.low, outlier.high),
      "the value marks a missing one, or is a measurement error",
      "replace the value or leave out its rows; if the value is correct: --skip values"};
}

// Returns the fault of a value that stands for a missing one. Reads each row of a table once,
// however many windows have it.
std::optional<Fault> sentinel_in(const SeriesTable& table, std::int64_t rows) {
  const auto M = std::ssize(table.names);
  const auto numbers = table.values.values<double>();
  for (std::int64_t m = 0; m < M; ++m) {
    std::vector<float> column;
    for (std::int64_t row = 0; row < rows; ++row)
      column.push_back(static_cast<float>(numbers[row * M + m]));
    const std::optional<Outlier> found = outlier_of(column);
    if (!found) continue;
    const auto first = std::ranges::find(column, found->value) - column.begin();
    return sentinel_fault(*found,
                          fmt::format("column {}, first at {}", printable_beginning(table.names[m]),
                                      row_text(table, first)));
  }
  return std::nullopt;
}

std::optional<Fault> sentinel(TrainingUnderTest& under_test) {
  std::vector<const Dataset*> splits = {&under_test.task().training_data()};
  for (const EvaluationSplit& split : under_test.evaluation_splits()) splits.push_back(split.data);
  if (const SeriesDataset* last = splits.back()->series(); last && last->table())
    return sentinel_in(*last->table(), last->end_row());
  for (const Column& column : columns_of(splits))
    if (const std::optional<Outlier> found = outlier_of(column.values))
      return sentinel_fault(*found, column.name);
  return std::nullopt;
}

std::optional<Fault> not_finite(const std::string& split, const DatasetStatistics& found) {
  if (!found.not_finite) return std::nullopt;
  return Fault{fmt::format("{} split: {}", split, *found.not_finite),
               "a value is missing, or was divided by 0",
               "replace the value or leave out the example: its loss is not finite"};
}

// Returns the fault of one of the first examples that differs when it is read again.
std::optional<Fault> changing_example(const Dataset& data) {
  constexpr std::int64_t most_read_twice = 16;
  for (std::int64_t i = 0; i < std::min(most_read_twice, data.size()); ++i)
    if (fingerprint(data.batch(std::vector{i})) != fingerprint(data.batch(std::vector{i})))
      return Fault{
          fmt::format("training example {} differs when it is read again", i),
          "the data set is random or modified when it is read, so training is not reproducible",
          "derive all randomness from the seed and the example's index"};
  return std::nullopt;
}

// The places of an example that have the same value in all examples.
struct Constants {
  std::int64_t count = 0, first = 0;
  float value = 0;  // value at the first place
};
Constants constants_of(const std::vector<float>& low, const std::vector<float>& high) {
  Constants found;
  for (std::size_t i = 0; i < low.size(); ++i)
    if (low[i] == high[i] && found.count++ == 0)
      found.first = static_cast<std::int64_t>(i), found.value = low[i];
  return found;
}

// Returns the fault. `one` is an array of an example; its last axis has the columns of a table.
Fault constant_fault(const char* what, const Constants& constants, const Array& one) {
  const std::int64_t columns = one.dim(-1);
  return {fmt::format("{} of the {} {} of an example are constant over all examples, first "
                      "column {} of {}: {:.4g}",
                      constants.count, one.size(), what, constants.first % columns + 1, columns,
                      constants.value),
          "these numbers were read from the wrong place, or scaled to 0",
          "print the values of an example, and correct the code that reads them"};
}

}  // namespace

// Checks the values. Constant inputs are usual, such as the background of pictures; if all are
// constant, that is a fault, and so is one constant target.
CheckResult check_values(TrainingUnderTest& under_test) {
  const DatasetStatistics& training = under_test.training_statistics();
  if (const auto fault = sentinel(under_test)) return {.fault = fault};
  if (const auto fault = not_finite("training", training)) return {.fault = fault};
  for (const EvaluationSplit& split : under_test.evaluation_splits())
    if (const auto fault = not_finite(split.name, split.statistics)) return {.fault = fault};
  if (const auto fault = changing_example(under_test.task().training_data()))
    return {.fault = fault};
  const std::int64_t numbers = std::ssize(training.low), targets = std::ssize(training.low_target);
  if (numbers + targets == 0) return {.said = training.coverage() + " of tokens"};
  CheckResult result{
      .said = fmt::format("{} of {} values, all finite", training.coverage(), numbers + targets)};
  const Batch one = under_test.training_examples(1).batch;
  if (one.has_auxiliary() || training.fingerprints.size() < 2) return result;
  const Constants inputs = constants_of(training.low, training.high),
                  constant_targets = constants_of(training.low_target, training.high_target);
  result.said += fmt::format(", {} of them constant", inputs.count + constant_targets.count);
  if (numbers > 0 && inputs.count == numbers)
    result.fault = constant_fault("inputs", inputs, one.inputs);
  else if (constant_targets.count > 0)
    result.fault = constant_fault("targets", constant_targets, one.targets);
  return result;
}

}  // namespace tapestry
