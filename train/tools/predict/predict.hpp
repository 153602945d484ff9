#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/inspect/predictor.hpp"

namespace tapestry {

// What the examples of an input have in common.
struct ExampleForm {
  PredictorInput input{};
  std::string header{};              // the first row, as it is written; without header empty
  std::vector<std::string> names{};  // of the columns of rows
};

// An example, as its input has it.
struct SourceExample {
  std::string place{};  // "line 7", or the path of a file
  std::string raw{};    // its bytes, or the path
  std::vector<std::string> cells{};
  ExampleFields fields{};  // for the predictor
  std::string flaw{};      // why it has none
};

// Receives the predictions of an input in the order of its examples.
class PredictionSink {
 public:
  virtual ~PredictionSink() = default;
  virtual void begin(const ExampleForm& form) = 0;
  // Returns whether to go on.
  virtual bool take(const SourceExample& example, const Prediction& prediction) = 0;
};

// Numbers of examples, and why the first ones were not predicted: "line 7: the text is empty".
struct PredictedCount {
  std::int64_t examples = 0, flawed = 0;
  std::vector<std::string> flaws{};  // at most ten
};

// Returns what the predictor of a task returns for examples, each with its place. Throws InputError
// if it is not one prediction for each, with a flaw or a cell for each column, and with the place
// for an exception of the predictor that is no InputError and no lack of memory.
std::vector<Prediction> predictions_of(const Predictor& predictor, const std::string& task,
                                       std::span<const ExampleFields> examples,
                                       std::span<const std::string> places);

// Predicts the examples of a file, of a folder, or of the standard input ("-"), 512 at a time.
// Throws InputError if the input cannot be read, for a header without a needed column, and as
// predictions_of() does.
PredictedCount predict_all(const Predictor& predictor, const std::string& task,
                           const std::string& data, PredictionSink& sink);

// Returns a sink that writes a row for each example, its cells byte for byte and then those of the
// prediction: delimited text, or if `as_objects` JSONL. Throws InputError if objects should become
// delimited text.
std::unique_ptr<PredictionSink> prediction_writer(
    const std::vector<PredictedColumn>& columns, bool as_objects,
    std::function<bool(std::string_view bytes)> write);

}  // namespace tapestry
