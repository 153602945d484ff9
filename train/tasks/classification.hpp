#pragma once

#include "train/task.hpp"

// Of logits (N, V), floating: scores of V classes for each of N examples.
namespace tapestry {

std::vector<std::int32_t> likeliest(const Array& logits);  // N classes

// The share of the targets (N) int32 that are the likeliest, but for those that are ignored_target.
MetricSum accuracy(const Array& logits, const Array& targets);

}  // namespace tapestry
