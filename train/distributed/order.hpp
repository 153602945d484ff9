#pragma once

#include <cstdint>
#include <vector>

namespace tapestry {

// The order in which what a step's parts give is summed, which their number alone decides: the
// parts stand in at most 8 groups, are added one by one inside a group, and the groups' sums as a
// balanced binary tree. It is written as a stack machine's program: after part p is pushed, the two
// sums on top become one, as often as merges[p] says. At most 5 sums are held at a time, however
// many parts there are.
std::vector<int> merges_of(std::int64_t micro_batches);

// The parts [first, last) of one of several ranks: consecutive, and as many as of any other, or one
// more.
struct MicroBatchRange {
  std::int64_t first = 0, last = 0;
};
MicroBatchRange micro_batches_of_rank(std::int64_t micro_batches, int rank, int ranks);

// What a rank does after one of its own parts.
struct MicroBatchStep {
  int merges = 0;      // of its own sums
  bool sends = false;  // the sum on top has nothing more to be added here: it goes to the others
};

// What a rank's own parts come to: the sums that it cannot add up alone.
struct MicroBatchPlan {
  MicroBatchRange range;
  std::vector<MicroBatchStep> steps;  // one a part
  std::vector<int> merges_after;  // of each sum that it sends, in the order of the parts: how many
                                  // merges follow it when the sums of all ranks are added up
};
MicroBatchPlan plan_micro_batches(std::int64_t micro_batches, int rank, int ranks);

}  // namespace tapestry
