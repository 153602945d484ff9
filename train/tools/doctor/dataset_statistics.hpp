#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

// The number of occurrences of each token or label.
using Counts = std::unordered_map<std::int32_t, std::int64_t>;

// Statistics of a split, from all of its examples, or from evenly spaced ones.
struct DatasetStatistics {
  std::int64_t size = 0;                      // number of examples of the split
  std::vector<std::uint64_t> fingerprints{};  // hashes of the examples that were read
  bool labels = false;                        // whether targets have one axis, as labels have
  Counts inputs{}, targets{};                 // counts of integers, without ignored targets
  // Minimum and maximum of each input and target of an example; empty for integers.
  std::vector<float> low{}, high{};
  std::vector<float> low_target{}, high_target{};
  // The first number that is not finite: "input 3 of example 7 is nan"
  std::optional<std::string> not_finite{};

  bool whole() const { return std::ssize(fingerprints) == size; }
  // Returns what was read: "1000 examples", "100000 of 1000000 examples"
  std::string coverage() const;
};

// Reads evenly spaced examples: at most 100,000, with about 10 million numbers at most. The split
// must not be empty.
DatasetStatistics dataset_statistics(const Dataset& data);

// Returns at most `most` evenly spaced indices of examples.
std::vector<std::int64_t> evenly(std::int64_t size, std::int64_t most);

// Calls `visit` with single examples until `visit` returns false, for 5 seconds at most. Returns
// false if the time ended first.
bool read_through(const Dataset& data, const std::function<bool(const Batch&)>& visit);

// Returns a hash of the inputs, source tokens, edges and targets of a batch.
std::uint64_t fingerprint(const Batch& batch);

// Returns whether inputs and targets are (B, T) tokens.
bool has_token_targets(const Batch& batch);

// Returns the share of targets (B, T) that are the next token of their row's inputs.
double share_of_next_tokens(const Batch& batch);

// Returns the logarithm of a bound on the probability that at least k of n independent events
// occur, whose mean probability is p (Hoeffding 1963, theorem 1); 0 if k is not above n · p.
double log_chance(double k, double n, double p);

}  // namespace tapestry
