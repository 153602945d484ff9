#include "train/tools/doctor/dataset_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/checksum.hpp"
#include "autograd/clock.hpp"
#include "autograd/counted.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/text/conversation_dataset.hpp"
#include "data/text/pairs.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_examples = 100'000;
constexpr std::int64_t most_numbers = 10'000'000;  // maximum number of values to read

void count(const Array& tokens, Counts& into) {
  for (const std::int32_t token : tokens.values<std::int32_t>())
    if (token != ignored_target) ++into[token];
}

// Updates the minimum and the maximum at each place of an example. Ignores examples of another size
// than the first.
void widen(std::span<const float> values, std::vector<float>& low, std::vector<float>& high) {
  if (low.empty()) {
    low.assign(values.begin(), values.end());
    high = low;
  }
  if (low.size() != values.size()) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    low[i] = std::fmin(low[i], values[i]);  // ignores NaN
    high[i] = std::fmax(high[i], values[i]);
  }
}

// `may_be_missing`: NaN stands for a value that nobody measured.
std::optional<std::string> non_finite(std::span<const float> values, const char* what,
                                      std::int64_t example, bool may_be_missing) {
  const auto found = std::ranges::find_if(
      values, [&](float x) { return !std::isfinite(x) && !(may_be_missing && std::isnan(x)); });
  if (found == values.end()) return std::nullopt;
  return fmt::format("{} {} of example {} is {}", what, found - values.begin(), example, *found);
}

}  // namespace

std::uint64_t fingerprint(const Batch& batch) {
  Checksum sum;
  sum.add(batch.inputs);
  sum.add(batch.targets);
  if (const auto* source = batch.find<SourceTokens>()) sum.add(source->tokens);
  if (const auto* graph = batch.find<GraphPart>()) {
    sum.add(graph->adjacency.incoming().offsets);
    sum.add(graph->adjacency.incoming().neighbors);
  }
  return sum.value();
}

std::string DatasetStatistics::coverage() const {
  return whole() ? counted(size, "example")
                 : fmt::format("{} of {}", fingerprints.size(), counted(size, "example"));
}

DatasetStatistics dataset_statistics(const Dataset& data) {
  const std::int64_t size = data.size();
  const Batch first = data.batch(std::vector<std::int64_t>{0});
  const std::int64_t numbers =
      std::max<std::int64_t>(1, first.inputs.size() + first.targets.size());
  const std::int64_t read = std::clamp<std::int64_t>(most_numbers / numbers, 1, most_examples);
  DatasetStatistics found{.size = size, .labels = first.targets.rank() == 1};
  for (const std::int64_t example : evenly(size, read)) {
    const Batch batch = data.batch(std::vector{example});
    found.fingerprints.push_back(fingerprint(batch));
    const auto add = [&](const Array& array, const char* what, Counts& counts,
                         std::vector<float>& low, std::vector<float>& high) {
      if (array.dtype() == DType::int32) count(array, counts);
      if (array.dtype() != DType::float32) return;
      if (!found.not_finite)
        found.not_finite = non_finite(array.values<float>(), what, example,
                                      data.series() && &array == &batch.targets);
      widen(array.values<float>(), low, high);
    };
    add(batch.inputs, "input", found.inputs, found.low, found.high);
    add(batch.targets, "target", found.targets, found.low_target, found.high_target);
  }
  return found;
}

std::vector<std::int64_t> evenly(std::int64_t size, std::int64_t most) {
  const std::int64_t count = std::min(size, most);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i * size / count);
  return numbers;
}

// Reads distant examples first, because adjacent windows of a text have mostly the same tokens.
bool read_through(const Dataset& data, const std::function<bool(const Batch&)>& visit) {
  constexpr double most_s = 5;
  constexpr std::int64_t stride = 256;
  const double end_s = now_s() + most_s;
  for (std::int64_t first = 0; first < std::min(stride, data.size()); ++first)
    for (std::int64_t i = first; i < data.size(); i += stride) {
      if (!visit(data.batch(std::vector{i}))) return true;
      if (now_s() > end_s) return false;
    }
  return true;
}

bool has_token_targets(const Batch& batch) {
  return batch.inputs.dtype() == DType::int32 && batch.targets.dtype() == DType::int32 &&
         batch.inputs.rank() == 2 && batch.inputs.shape() == batch.targets.shape();
}

// Ignores the last target of a row, and the last one before ignored targets, which are no inputs.
double share_of_next_tokens(const Batch& batch) {
  const std::int64_t T = batch.inputs.dim(1);
  const auto inputs = batch.inputs.values<std::int32_t>();
  const auto targets = batch.targets.values<std::int32_t>();
  double count = 0, next = 0;
  for (std::int64_t i = 0; i + 1 < std::ssize(targets); ++i) {
    if (i % T + 1 == T || targets[i] == ignored_target || targets[i + 1] == ignored_target)
      continue;
    ++count;
    next += targets[i] == inputs[i + 1];
  }
  return next / std::max(1.0, count);
}

double log_chance(double k, double n, double p) {
  const double share = n > 0 ? k / n : 0;
  if (share <= p) return 0;
  const double divergence =
      share * std::log(share / p) + (share < 1 ? (1 - share) * std::log((1 - share) / (1 - p)) : 0);
  return -n * divergence;
}

}  // namespace tapestry
