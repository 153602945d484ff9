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

// The contents of a split, each example read by itself.
struct DatasetStatistics {
  std::int64_t size = 0;  // examples of the split
  std::vector<std::uint64_t>
      fingerprints{};          // hashes of the examples that were read: all, or evenly spaced ones
  bool labels = false;         // an example has one target, an integer
  Counts inputs{}, targets{};  // counts of integers, without ignored targets
  std::vector<float> low{}, high{};  // range of each input of a floating example
  std::vector<float> low_target{}, high_target{};
  std::optional<std::string> not_finite{};  // the first number that is not: "input 3 of example 7"

  bool whole() const { return std::ssize(fingerprints) == size; }
  std::string coverage() const;  // "1000 examples", "100000 of 1000000 examples"
};

DatasetStatistics dataset_statistics(const Dataset& data);

// Returns the numbers of at most `most` examples, at even distances.
std::vector<std::int64_t> evenly(std::int64_t size, std::int64_t most);

// Calls `visit` with each example by itself until it returns false, for a few seconds at most.
// Returns false if time ran out before.
bool read_through(const Dataset& data, const std::function<bool(const Batch&)>& visit);

// Returns a hash of everything that a model reads of a batch, and of its targets.
std::uint64_t fingerprint(const Batch& batch);

// Returns whether inputs and targets are (B, T) tokens.
bool has_token_targets(const Batch& batch);

// Returns the share of targets (B, T) that are the next token of their row's inputs.
double share_of_next_tokens(const Batch& batch);

// Returns the logarithm of a bound on the probability that at least k of n independent events
// occur, whose mean probability is p (Hoeffding 1963, theorem 1); 0 if k is not above n · p.
double log_chance(double k, double n, double p);

// A value at one end of a column that is far from all others.
struct Outlier {
  float value = 0;
  std::int64_t count = 0;   // how often it occurs
  float low = 0, high = 0;  // range of the other values
};

// Returns the value of a column that is so far from all others that it stands for something else:
// one that occurs three times and is 5 times as far as the range of the others, or any that is 1000
// times as far. Columns of few different values, and of values in [0, 1], have none.
std::optional<Outlier> outlier_of(std::vector<float> column);

}  // namespace tapestry
