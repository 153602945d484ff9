#include "train/tools/doctor/data_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "autograd/checksum.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/text/conversation_dataset.hpp"
#include "data/text/pairs.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_examples = 100'000;
constexpr std::int64_t most_numbers = 10'000'000;  // to be read

void count(const Array& tokens, Counts& into) {
  for (const std::int32_t token : tokens.values<std::int32_t>())
    if (token != ignored_target) ++into[token];
}

// The least and the greatest number at each place, where all examples have as many.
void widen(const Array& numbers, std::vector<float>& low, std::vector<float>& high) {
  const auto values = numbers.values<float>();
  if (low.empty()) {
    low.assign(values.begin(), values.end());
    high = low;
  }
  if (low.size() != values.size()) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    low[i] = std::min(low[i], values[i]);
    high[i] = std::max(high[i], values[i]);
  }
}

void look_for_non_finite(const Array& numbers, const char* what, std::int64_t example,
                         DatasetStatistics& dataset_statistics) {
  const auto values = numbers.values<float>();
  const auto found = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (found != values.end() && !dataset_statistics.not_finite)
    dataset_statistics.not_finite =
        fmt::format("{} {} of example {} is {}", what, found - values.begin(), example, *found);
}

}  // namespace

std::uint64_t fingerprint(const Batch& batch) {
  Checksum sum;
  sum.add(batch.inputs);
  sum.add(batch.targets);
  if (const auto* source = batch.find<SourceTokens>()) sum.add(source->tokens);
  if (const auto* graph = batch.find<GraphPart>()) {
    sum.add(graph->adjacency.incoming().offsets);
    sum.add(graph->adjacency.incoming().neighbours);
  }
  return sum.value();
}

std::string DatasetStatistics::coverage() const {
  return whole() ? fmt::format("{} examples", size)
                 : fmt::format("{} of {} examples", fingerprints.size(), size);
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
    if (batch.inputs.dtype() == DType::int32) count(batch.inputs, found.inputs);
    if (batch.targets.dtype() == DType::int32) count(batch.targets, found.targets);
    if (batch.inputs.dtype() == DType::float32) {
      look_for_non_finite(batch.inputs, "input", example, found);
      widen(batch.inputs, found.low, found.high);
    }
    if (batch.targets.dtype() == DType::float32) {
      look_for_non_finite(batch.targets, "target", example, found);
      widen(batch.targets, found.low_target, found.high_target);
    }
  }
  return found;
}

std::vector<std::int64_t> evenly(std::int64_t size, std::int64_t most) {
  const std::int64_t count = std::min(size, most);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i * size / count);
  return numbers;
}

// Far ones first: what windows of a text that lie beside each other hold is mostly the same.
bool read_through(const Dataset& data, const std::function<bool(const Batch&)>& goes_on) {
  constexpr std::chrono::seconds most_time(5);
  constexpr std::int64_t stride = 256;
  const auto end = std::chrono::steady_clock::now() + most_time;
  for (std::int64_t first = 0; first < std::min(stride, data.size()); ++first)
    for (std::int64_t i = first; i < data.size(); i += stride) {
      if (!goes_on(data.batch(std::vector{i}))) return true;
      if (std::chrono::steady_clock::now() > end) return false;
    }
  return true;
}

}  // namespace tapestry
