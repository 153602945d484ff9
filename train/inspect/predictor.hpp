#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/check.hpp"
#include "data/class_folder.hpp"
#include "data/table/scanner.hpp"

namespace tapestry {

// A field of an example: the name of a column, and where it stands without a header.
struct PredictorField {
  std::string name{};
  std::int64_t column = 0;  // from 0
};

// How the examples to be predicted are read, as those of the training were.
struct PredictorInput {
  // Rows of delimited text; objects of JSONL, with "a.b" for the member b of a; the lines of a
  // text; files, whose only field is their path; or the `made` examples, which follow the data.
  enum class Kind { rows, objects, lines, files, made };
  Kind kind = Kind::rows;
  std::string path{};  // of the rows; empty: the path of the data
  // That the predictor takes, in this order. The name of the only field of a line, file or made
  // example is that of its column in the output.
  std::vector<PredictorField> fields{};
  // Of rows. `label`: the column of the answers, which the examples may lack; -1: there is none.
  char delimiter = ',';
  bool has_header = true;
  std::int64_t label = -1;
  FileKind files{};  // that are predicted in a folder
  // Returns the only field of each example: a time. Reads the data.
  std::function<std::vector<std::string>()> made{};
};

// A column of the predictions. Cells of numbers are written as numbers in JSON.
struct PredictedColumn {
  std::string name{};
  bool is_number = false;
};

// What is predicted for an example: a cell for each column, which may be empty.
struct Prediction {
  std::vector<std::string> cells{};
  std::string flaw{};  // why the example cannot be read; there are no cells then
};

using ExampleFields = std::vector<std::string>;

using PredictExamples =
    std::function<std::vector<Prediction>(std::span<const ExampleFields> examples)>;
// Returns a function that gives these predictions in their order, whatever the examples.
inline PredictExamples in_turn(std::vector<Prediction> all) {
  return
      [all = std::move(all), next = std::size_t{0}](std::span<const ExampleFields> some) mutable {
        const std::size_t first = std::exchange(next, next + some.size());
        require(next <= all.size(), "predict: {} examples; expected {}", next, all.size());
        return std::vector<Prediction>(all.begin() + first, all.begin() + next);
      };
}

// How a trained model predicts examples that may have no answer. The task must outlive it.
struct Predictor {
  PredictorInput input{};
  std::vector<PredictedColumn> columns{};
  PredictExamples predict{};
};

}  // namespace tapestry
