#include <algorithm>
#include <cmath>

#include "train/inspect/predictor.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/tables/table_task.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> best = best_option();
const Key<std::int64_t> first_row = index_option("index of the validation row");
const Key<std::int64_t> row_count = count_option(10);

// Returns a number of the target in its units.
double in_units(const TargetColumn& target, double scaled) {
  return target.mean + target.deviation * scaled;
}

std::vector<Prediction> predict_rows(const TableTask& task, const RowEncoder& encoder,
                                     std::span<const ExampleFields> examples,
                                     std::int64_t classes) {
  const std::int64_t F = task.data().columns().width();
  std::vector<Prediction> predictions(examples.size());
  std::vector<float> inputs;
  std::vector<std::size_t> rows;
  std::vector<std::string> unusual;
  for (std::size_t i = 0; i < examples.size(); ++i) try {
      std::vector<float> row(F);
      unusual.push_back(encoder.encode(examples[i], row.data()));
      rows.push_back(i);
      inputs.insert(inputs.end(), row.begin(), row.end());
    } catch (const InputError& error) {
      predictions[i].flaw = error.what();
    }
  if (rows.empty()) return predictions;
  const Array y = task.predicted(Array::of(inputs, {std::ssize(rows), F}));
  std::vector<Prediction> found;
  if (task.data().has_classes()) {
    found = class_cells(y, task.data().target().classes, classes);
  } else {
    expect_finite(y);
    for (const float value : y.values<float>())
      found.push_back(
          {.cells = {fmt::format("{:.9g}", in_units(task.data().target(), value)), ""}});
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    predictions[rows[i]] = std::move(found[i]);
    predictions[rows[i]].cells.back() = unusual[i];
  }
  return predictions;
}

Predictor predictor(TableTask& task, const Options& options) {
  const std::int64_t classes = options[best];
  const bool has_classes = task.data().has_classes();
  expect_input(has_classes || !options.is_set(best),
               "--best: the target is a number; leave it out");
  return {.input = task.data().predictor_input(),
          .columns = has_classes ? class_columns(task.data().target().classes, classes)
                                 : std::vector<PredictedColumn>{{"prediction", true}, {"unusual"}},
          .predict = [&task, classes,
                      encoder = task.data().encoder()](std::span<const ExampleFields> examples) {
            return predict_rows(task, encoder, examples, classes);
          }};
}

// Returns "row 3: red 0.98  right", or "row 3: 12.5  expected 13.1", for rows from --index on.
Sample sample(TableTask& task, const Options& options) {
  const TargetColumn& target = task.data().target();
  const std::int64_t first = options[first_row];
  const Dataset& rows = task.validation_data();
  expect_input(first < rows.size(), "--index {}: the validation rows are 0 to {}", first,
               rows.size() - 1);
  const Batch batch = batch_from(rows, first, options[row_count]);
  const Array y = task.predicted(batch.inputs);
  std::string text;
  if (task.data().has_classes()) {
    for (const ClassPrediction& one : class_predictions(y, batch.targets))
      text += fmt::format("row {}: {} {:.2f}  {}\n", first + one.example,
                          target.classes[one.predicted], one.probability,
                          outcome(target.classes[one.predicted], target.classes[one.target]));
    return {.text = text};
  }
  for (std::int64_t i = 0; i < y.size(); ++i)
    text += fmt::format("row {}: {:.6g}  expected {:.6g}\n", first + i,
                        in_units(target, y.values<float>()[i]),
                        in_units(target, batch.targets.values<float>()[i]));
  return {.text = text};
}

}  // namespace

Inspector<Sample> table_samples() { return {{first_row, row_count}, &sample}; }
Inspector<Predictor> table_predictor() { return {{best}, &predictor}; }

}  // namespace tapestry
