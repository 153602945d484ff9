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

// Statistics of a split, from examples that are read one by one.
struct DatasetStatistics {
  std::int64_t size = 0;  // number of examples of the split
  std::vector<std::uint64_t>
      fingerprints{};          // hashes of the examples that were read, all or evenly spaced ones
  bool labels = false;         // whether an example has one target, an integer
  Counts inputs{}, targets{};  // counts of integers, without ignored targets
  std::vector<float> low{}, high{};  // minimum and maximum of each input of a floating example
  std::vector<float> low_target{}, high_target{};
  // Place of the first number that is not finite: "input 3 of example 7"
  std::optional<std::string> not_finite{};

  bool whole() const { return std::ssize(fingerprints) == size; }
  // Returns what was read: "1000 examples", "100000 of 1000000 examples"
  std::string coverage() const;
};

DatasetStatistics dataset_statistics(const Dataset& data);

// Returns at most `most` evenly spaced indices of examples.
std::vector<std::int64_t> evenly(std::int64_t size, std::int64_t most);

// Calls `visit` with single examples until it returns false, for a few seconds at most. Returns
// whether all were read.
bool read_through(const Dataset& data, const std::function<bool(const Batch&)>& visit);

// Returns a hash of all inputs and targets of a batch.
std::uint64_t fingerprint(const Batch& batch);

// Returns whether inputs and targets are (B, T) tokens.
bool has_token_targets(const Batch& batch);

// Returns the share of targets (B, T) that are the next token of their row's inputs.
double share_of_next_tokens(const Batch& batch);

// Returns the logarithm of a bound on the probability that at least k of n independent events
// occur, whose mean probability is p (Hoeffding 1963, theorem 1); 0 if k is not above n · p.
double log_chance(double k, double n, double p);

}  // namespace tapestry
