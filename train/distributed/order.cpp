#include "train/distributed/order.hpp"

#include <algorithm>

namespace tapestry {
namespace {

constexpr std::int64_t most_groups = 8;

// Adds the merges of the groups [begin, end); group g begins with micro-batch
// micro_batches * g / groups.
void add_merges(std::vector<int>& merges, std::int64_t groups, std::int64_t begin,
                std::int64_t end) {
  const std::int64_t micro_batches = std::ssize(merges);
  const std::int64_t first = micro_batches * begin / groups, last = micro_batches * end / groups;
  if (end - begin == 1) {
    for (std::int64_t part = first + 1; part < last; ++part) ++merges[part];
    return;
  }
  const std::int64_t middle = begin + (end - begin) / 2;
  add_merges(merges, groups, begin, middle);
  add_merges(merges, groups, middle, end);
  ++merges[last - 1];
}

// A sum on a rank's stack.
struct Sum {
  std::int64_t last_part;  // micro-batch after which it was pushed or last added to
  int missed = 0;          // number of merges with sums of other ranks
};

}  // namespace

std::vector<int> merges_of(std::int64_t micro_batches) {
  std::vector<int> merges(micro_batches, 0);
  const std::int64_t groups = std::min(micro_batches, most_groups);
  if (micro_batches > 0) add_merges(merges, groups, 0, groups);
  return merges;
}

MicroBatchRange micro_batches_of_rank(std::int64_t micro_batches, int rank, int ranks) {
  return {micro_batches * rank / ranks, micro_batches * (rank + 1) / ranks};
}

// Returns the plan of a rank. A merge with a sum of an earlier rank is left to the owner, so its
// operand is sent; sums pushed after it can be merged only with each other.
MicroBatchPlan plan_micro_batches(std::int64_t micro_batches, int rank, int ranks) {
  const std::vector<int> merges = merges_of(micro_batches);
  MicroBatchPlan plan{
      .range = micro_batches_of_rank(micro_batches, rank, ranks), .steps = {}, .merges_after = {}};
  std::vector<Sum> sums;
  std::size_t closed = 0;  // number of sums that cannot be merged on this rank
  for (std::int64_t part = plan.range.first; part < plan.range.last; ++part) {
    MicroBatchStep& step = plan.steps.emplace_back();
    sums.push_back({part});
    for (int merge = 0; merge < merges[part]; ++merge) {
      if (sums.size() - closed >= 2) {
        sums.pop_back();
        sums.back().last_part = part;
        ++step.merges;
      } else {
        ++sums.back().missed;
        closed = sums.size();
      }
    }
  }
  for (const Sum& sum : sums) {
    plan.steps[sum.last_part - plan.range.first].sends = true;
    plan.merges_after.push_back(sum.missed);
  }
  return plan;
}

}  // namespace tapestry
