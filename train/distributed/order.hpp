#pragma once

#include <cstdint>
#include <vector>

namespace tapestry {

// Returns the order in which the gradients of a step's micro-batches are summed. It depends on
// their number only: at most 8 groups, in which the micro-batches are added one by one, and a
// balanced binary tree over the groups' sums. The order is a program of a stack machine: after
// micro-batch m is pushed, the two sums on top become one, merges[m] times. At most 5 sums are held
// at a time.
std::vector<int> merges_of(std::int64_t micro_batches);

// The micro-batches [first, last) of one of several ranks; the ranks' numbers of micro-batches
// differ by one at most.
struct MicroBatchRange {
  std::int64_t first = 0, last = 0;
};
MicroBatchRange micro_batches_of_rank(std::int64_t micro_batches, int rank, int ranks);

// The work of a rank after one of its own micro-batches.
struct MicroBatchStep {
  int merges = 0;      // merges of the rank's own sums
  bool sends = false;  // the sum on top has nothing more to be added here: it goes to the others
};

// The micro-batches of a rank, and the sums that it cannot complete alone.
struct MicroBatchPlan {
  MicroBatchRange range;
  std::vector<MicroBatchStep> steps;  // one step per micro-batch
  std::vector<int> merges_after;      // for each sum that it sends, in order: the number of merges
                                      // merges follow it when the sums of all ranks are added up
};
MicroBatchPlan plan_micro_batches(std::int64_t micro_batches, int rank, int ranks);

}  // namespace tapestry
