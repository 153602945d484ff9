#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/task.hpp"

namespace tapestry {

struct TokenBaselineOptions {
  std::int64_t vocabulary = 0;  // number of tokens
  std::int64_t every = 1;       // examples from one that is counted to the next
  // Returns the averages of a batch, as the task measures its own model, from the sum of the losses
  // in nats.
  std::function<MetricSums(double nats, const Batch& batch)> measure{};
};

// Returns the metrics on each split of predictions by the frequencies of the training's tokens, of
// which each has one more, and by those of its bigrams, interpolated with them (Witten & Bell 1991,
// method C): p(w | v) = (c(v, w) + t(v) p(w)) / (c(v) + t(v)), where t(v) different tokens follow
// v. At most 10 million tokens are counted, in evenly spaced examples. A batch has inputs and
// targets (B, T) int32; those that are ignored_target are not counted.
std::vector<Baselines> token_baselines(Task& task, JudgedSplits judged,
                                       const TokenBaselineOptions& options);

}  // namespace tapestry
