#include "train/tools/doctor/next_tokens.hpp"

#include <algorithm>
#include <set>

namespace tapestry {

bool has_token_targets(const Batch& batch) {
  return batch.inputs.dtype() == DType::int32 && batch.targets.dtype() == DType::int32 &&
         batch.inputs.rank() == 2 && batch.inputs.shape() == batch.targets.shape();
}

// Of targets behind which another one stands: what follows the last is no input.
NextTokens next_tokens(const Batch& batch) {
  const std::int64_t T = batch.inputs.dim(1);
  const auto inputs = batch.inputs.values<std::int32_t>();
  const auto targets = batch.targets.values<std::int32_t>();
  NextTokens found;
  double count = 0, late = 0;
  for (std::int64_t row = 0; row < std::ssize(inputs); row += T) {
    const std::int64_t behind = (row + T) % std::ssize(inputs);
    const std::set own(inputs.begin() + row + 1, inputs.begin() + row + T);
    const std::set other(inputs.begin() + behind + 1, inputs.begin() + behind + T);
    for (std::int64_t t = 0; t + 1 < T; ++t) {
      const std::int32_t target = targets[row + t];
      if (target == ignored_target || targets[row + t + 1] == ignored_target) continue;
      ++count;
      found.same += target == inputs[row + t];
      found.next += target == inputs[row + t + 1];
      found.own_row += own.contains(target);
      found.other_row += other.contains(target);
      if (t + 2 == T) continue;
      ++late;
      found.second_next += target == inputs[row + t + 2];
    }
  }
  for (double* share : {&found.same, &found.next, &found.own_row, &found.other_row})
    *share /= std::max(1.0, count);
  found.second_next /= std::max(1.0, late);
  return found;
}

bool inputs_hold_targets(const Batch& batch) {
  return has_token_targets(batch) && next_tokens(batch).next > 0.5;
}

}  // namespace tapestry
