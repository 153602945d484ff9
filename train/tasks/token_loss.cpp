#include "train/tasks/token_loss.hpp"

#include <fmt/format.h>

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

std::vector<MetricInfo> token_metrics(const std::string& whose, std::vector<MetricInfo> others) {
  const MetricInfo loss{.name = "loss",
                        .unit = "nats per token",
                        .better = MetricInfo::Better::lower,
                        .meaning = fmt::format("the negative log likelihood of {} tokens", whose),
                        .is_per_token = true};
  const MetricInfo perplexity{.name = "perplexity",
                              .unit = "tokens",
                              .better = MetricInfo::Better::lower,
                              .meaning =
                                  "the exponential of the loss: the effective number of "
                                  "tokens between which the model chooses",
                              .is_per_token = true};
  others.insert(others.begin(), {loss, perplexity});
  return others;
}

void add_perplexity(Metrics& metrics) { metrics["perplexity"] = std::exp(metrics.at("loss")); }

}  // namespace tapestry
