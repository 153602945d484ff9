#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

// How often each token or label occurs.
using Counts = std::unordered_map<std::int32_t, std::int64_t>;

// What the examples of a split hold, each read by itself.
struct DatasetStatistics {
  std::int64_t size = 0;                      // of the split,
  std::vector<std::uint64_t> fingerprints{};  // and of the examples that were read: all, or some
                                              // that lie evenly among them
  bool labels = false;                        // an example has one target, an integer
  Counts inputs{}, targets{};                 // of integers, without those that are ignored
  std::vector<float> low{}, high{};           // of each number of a floating example
  std::vector<float> low_target{}, high_target{};
  std::optional<std::string> not_finite{};  // where the first number is that is not: "example 7, …"

  bool whole() const { return std::ssize(fingerprints) == size; }
  std::string coverage() const;  // "1000 examples", "100000 of 1000000 examples"
};

DatasetStatistics dataset_statistics(const Dataset& data);

// The numbers of so many examples at most, evenly among all.
std::vector<std::int64_t> evenly(std::int64_t size, std::int64_t most);

// Shows each example of a split, by itself, for a few seconds at most, until `goes_on` says no.
// Whether it came to an end of either kind: else there are examples that it did not show.
bool read_through(const Dataset& data, const std::function<bool(const Batch&)>& goes_on);

// Of all that a model reads of a batch and should say.
std::uint64_t fingerprint(const Batch& batch);

}  // namespace tapestry
