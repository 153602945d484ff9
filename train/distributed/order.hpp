#pragma once

#include <cstdint>
#include <vector>

namespace tapestry {

// Returns the order in which the gradients of a step's micro-batches are summed. It depends only on
// `micro_batches`: at most 8 groups, in which the micro-batches are added one by one, and a
// balanced binary tree over the groups' sums. The order is a program of a stack machine: after
// micro-batch m is pushed, the top two sums are merged merges[m] times. At most 5 sums are stored
// at a time.
std::vector<int> merges_of(std::int64_t micro_batches);

// The micro-batches [first, last) of a rank. The numbers of micro-batches of ranks differ by at
// most one.
struct MicroBatchRange {
  std::int64_t first = 0, last = 0;
};
MicroBatchRange micro_batches_of_rank(std::int64_t micro_batches, int rank, int ranks);

// The work of a rank after one of its micro-batches.
struct MicroBatchStep {
  int merges = 0;      // number of merges of the rank's own sums
  bool sends = false;  // whether this rank adds no more to the top sum, and sends it to the owner
};

// The micro-batches of a rank, and the sums that the rank sends to the owners.
struct MicroBatchPlan {
  MicroBatchRange range;
  std::vector<MicroBatchStep> steps;  // one step per micro-batch
  // For each sum that the rank sends, the number of merges after it in the sum over all ranks.
  std::vector<int> merges_after;
};
MicroBatchPlan plan_micro_batches(std::int64_t micro_batches, int rank, int ranks);

}  // namespace tapestry
