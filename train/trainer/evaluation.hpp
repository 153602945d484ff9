#pragma once

#include <atomic>

#include "train/config/config.hpp"
#include "train/distributed/ranks.hpp"
#include "train/measure/statistics.hpp"
#include "train/task.hpp"

namespace tapestry {

// The settings of an evaluation.
struct EvaluationOptions {
  explicit EvaluationOptions(const Config& config);

  std::int64_t batch_size;  // examples per batch
  std::uint64_t seed;       // of the random streams of the examples
  std::string origin;       // where the batch size was set, for messages
  bool check_finite;        // whether every op is checked, also in the training
};

// Returns the averages over a whole data set and the metrics that the task derives from them. Each
// example has its own random stream, which is the same at every call. Throws ModelTooLarge if a
// batch does not fit into memory.
Metrics evaluate(Task& task, const Dataset& data, const EvaluationOptions& options);
// Returns the same metrics on all ranks, which share the batches. Empty if `stop`, unless it is
// null, became true before the end. Must be called by all ranks.
Metrics evaluate(Task& task, const Dataset& data, const EvaluationOptions& options,
                 const std::atomic<bool>* stop, Ranks& ranks);

// Return the parts of evaluate(): the number of batches, and the loss of one of them.
std::int64_t evaluation_batches(const Dataset& data, const EvaluationOptions& options);
Loss evaluate_batch(Task& task, const Dataset& data, const EvaluationOptions& options,
                    std::int64_t number);

// Returns the number of loss terms of a data set: the sum of Batch::count over all batches.
std::int64_t count_targets(const Dataset& data, const EvaluationOptions& options);

// Mean and standard deviation of each metric over one or more runs.
using Estimates = std::map<std::string, Estimate>;
Estimates estimates_of(const std::vector<Metrics>& runs);

// Returns "loss 1.8832  bits_per_char 2.717", each metric with its signature in parentheses.
std::string show(const Metrics& values, const Signatures& signatures = {});
// Returns a line for each baseline, and one that compares the metrics with them; "" without any.
std::string show(const std::vector<Baseline>& baselines, const Metrics& metrics);
// Returns "loss 1.8832 ± 0.0041  bits_per_char 2.7170 ± 0.0059".
std::string show(const Estimates& estimates);

}  // namespace tapestry
