#include "train/tasks/counted_rows.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/dry_run.hpp"
#include "autograd/ops/indexing.hpp"
#include "autograd/ops/shaping.hpp"

namespace tapestry {
namespace {

// Returns the number of targets that are not ignored.
std::int64_t count_of(const Batch& batch) {
  if (is_dry_run()) return std::llround(batch.count);
  const auto targets = batch.targets.values<std::int32_t>();
  return std::ssize(targets) - std::ranges::count(targets, ignored_target);
}

}  // namespace

CountedRows counted_rows(const Tensor& hidden, const Batch& batch) {
  const std::int64_t rows = batch.targets.size(), count = count_of(batch);
  if (count == 0 || count >= rows) return {hidden, batch.targets};
  Array index({count}, DType::int32), targets({count}, DType::int32);
  if (!is_dry_run()) {
    std::int32_t* place = index.mutable_values<std::int32_t>().data();
    std::int32_t* counted = targets.mutable_values<std::int32_t>().data();
    const auto all = batch.targets.values<std::int32_t>();
    for (std::int64_t row = 0; row < rows; ++row)
      if (all[row] != ignored_target) {
        *place++ = static_cast<std::int32_t>(row);
        *counted++ = all[row];
      }
  }
  return {gather(reshape(hidden, {rows, hidden.dim(-1)}), 0, index), targets};
}

}  // namespace tapestry
