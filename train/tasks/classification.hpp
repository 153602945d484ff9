#pragma once

#include "train/task.hpp"

// Logits (N, V), floating, are scores of V classes for each of N examples.
namespace tapestry {

// Returns the class with the highest score, for each example.
std::vector<std::int32_t> likeliest(const Array& logits);

// Returns the share of the targets (N) int32 that have the highest score, without those that are
// ignored_target.
MetricSum accuracy(const Array& logits, const Array& targets);

// Returns the metrics of a classifier: loss and accuracy.
std::vector<MetricInfo> classification_metrics();

}  // namespace tapestry
