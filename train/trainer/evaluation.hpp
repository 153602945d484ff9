#pragma once

#include <atomic>

#include "train/distributed/ranks.hpp"
#include "train/measure/statistics.hpp"
#include "train/task.hpp"

namespace tapestry {

// Averages over the whole of a dataset, no example left out, and what the task derives from them.
// Draws from random streams of its own, one an example, the same at every call. Empty where `stop`
// became true before the last batch.
Metrics evaluate(Task& task, const Dataset& data, const Config& config,
                 const std::atomic<bool>* stop = nullptr);
// By all ranks, each of which takes some of the batches: the same figures, on each.
Metrics evaluate(Task& task, const Dataset& data, const Config& config,
                 const std::atomic<bool>* stop, Ranks& ranks);

// What evaluate() does: so many batches, each of these examples of the data.
std::int64_t evaluation_batches(const Dataset& data, const Config& config);
std::vector<std::int64_t> evaluation_batch(const Dataset& data, const Config& config,
                                           std::int64_t number);
Loss evaluate_batch(Task& task, const Batch& batch, const std::vector<std::int64_t>& examples,
                    const Config& config);

Metrics values_of(const MetricSums& averages);

// What several runs, at least one, came to in each figure.
using Estimates = std::map<std::string, Estimate>;
Estimates estimates_of(const std::vector<Metrics>& runs);

// "loss 1.8832  bits_per_char 2.717", a figure's signature after it, in parentheses
std::string show(const Metrics& values, const Signatures& signatures = {});
// "loss 1.8832 ± 0.0041  bits_per_char 2.7170 ± 0.0059"
std::string show(const Estimates& estimates);

}  // namespace tapestry
