#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/task.hpp"

// The baselines of classifiers and of models that predict a number: what knows no inputs, and a
// linear model of them.
namespace tapestry {

// A linear model y = x W + b with the smallest mean loss + |W|² / (2 N) over N examples: of classes
// the cross-entropy, as in scikit-learn's LogisticRegression; of a number half the squared error,
// as in its Ridge. It is found by L-BFGS (Nocedal & Wright 2006, algorithm 7.4) from zero, with the
// same bits at any number of threads.
class LinearModel {
 public:
  // Fits the model to the inputs (N, F), dense or of a GraphPart with sparse features, and the
  // targets: (N) int32 of `outputs` classes or ignored_target, or (N, outputs) floating. Its
  // multiplications are limited to most_products, at the cost of precision.
  LinearModel(const Batch& examples, std::int64_t outputs);

  Array outputs(const Batch& inputs) const;  // logits or numbers (N, outputs)
  double objective() const { return objective_; }

  static constexpr double most_products = 4e9;

 private:
  Array weight_, bias_;  // (F, outputs), (outputs)
  double objective_ = 0;
};

// How examples of a data set become inputs of a linear model, and how its outputs are measured.
struct LinearBaselineOptions {
  std::int64_t outputs = 1;
  std::string name{};      // "linear model on pixels"
  double values_each = 1;  // number of inputs of an example that are not zero
  bool is_whole = false;   // every batch has the inputs of all examples, as nodes of a graph
  // Returns inputs and targets as LinearModel takes them. Is called first with the examples that
  // the model is fitted to, and `fits` is then true.
  std::function<Batch(const Dataset& data, std::span<const std::int64_t> examples, bool fits)>
      encode{};
  // Returns the loss and the metrics of outputs (N, outputs) as the task measures its own model.
  std::function<Loss(const Array& outputs, const Batch& batch)> measure{};
};

// Returns the metrics on each split of the majority class, or of the mean of the numbers, and of a
// linear model, which are fitted to the training split: to so many of its examples, evenly spaced,
// that the number of multiplications is limited.
std::vector<Baselines> linear_baselines(Task& task, JudgedSplits judged,
                                        const LinearBaselineOptions& options);

// Returns whether a task has a training split that is not synthetic.
bool has_own_training_data(const TaskSetup& setup);

// Returns rows of a sparse matrix (N, F) as the inputs of a batch: of each row the columns,
// ascending, and their values.
using SparseRow = std::vector<std::pair<std::int32_t, double>>;
Batch batch_of_rows(const std::vector<SparseRow>& rows, std::int64_t columns, Array targets);

}  // namespace tapestry
