#pragma once

#include <span>
#include <vector>

#include "train/task_spec.hpp"

// Metrics of the predictions of a table's column, as scikit-learn defines them.
namespace tapestry {

// Returns the area under the ROC curve (roc_auc_score): the probability that an example of the
// class has a higher score than one of another class; equal scores count half. NaN unless there are
// examples of both. `is_class`: 1 or 0 for each score.
double area_under_curve(std::span<const double> scores, std::span<const char> is_class);

// Adds metrics of the probabilities of V classes for N examples:
// - auc of the second of two classes, or of more the mean of each class against all others, of
//   those that occur (multi_class="ovr", average="macro"); left out if only one class occurs
// - balanced_accuracy: the mean of the recall of the classes that occur
// - calibration_error: the expected calibration error (Guo et al. 2017, arXiv 1706.04599, eq. 3) in
//   ten bins (0, 0.1], (0.1, 0.2], … of the highest probability
// - brier: the mean of the squared error, summed over the classes, or of the second of two classes
void add_classification_metrics(const ScoredExamples& scored, Metrics& metrics);

// Adds the sums from which derive_regression_metrics() computes metrics, and the loss, the mean
// squared error: predictions and targets (N, 1), both divided by the same `deviation`.
void add_regression_sums(MetricSums& sums, const Array& predictions, const Array& targets);
// Replaces them by mae, rmse and r2, which is left out if all targets are equal.
void derive_regression_metrics(Metrics& metrics, double deviation);

// Returns the descriptions of these metrics.
std::vector<MetricInfo> table_metrics();

}  // namespace tapestry
