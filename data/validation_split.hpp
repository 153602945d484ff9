#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"

// The choice of the examples of the validation split by a hash, so that the split is the same for
// every seed.
namespace tapestry {

// Returns MurmurHash3's finalizer of a number, in which each bit depends on all bits.
std::uint64_t mix(std::uint64_t number);

// Returns the split of an input of a synthetic task, by its hash: one in eight is for validation.
Split split_of(std::uint64_t number);
// The same for a sequence, hashed by FNV-1a over whole symbols and the first round of mix().
Split split_of(const std::vector<std::int32_t>& symbols);

// Returns `count` of the examples [0, size), in ascending order, chosen by a hash of their indices.
// A larger choice contains every smaller one. Throws std::invalid_argument unless `count` is from 0
// to `size`.
std::vector<std::int64_t> validation_examples(std::int64_t size, std::int64_t count);

// Returns this share of the examples of each label, rounded, in ascending order, chosen as above;
// at least one of a label with two or more.
std::vector<std::int64_t> validation_examples_of_classes(const std::vector<std::int32_t>& labels,
                                                         double share);

// Returns the hash of an example's text by which divide_by_hash() divides.
std::uint64_t text_hash(std::string_view text);

// Fractions of the examples of each class, whose sum is below 1. A share of 0 is no split.
struct SplitShares {
  double validation = 0.1, test = 0;
};

// The examples of the splits other than the training split, in ascending order.
struct HeldExamples {
  std::vector<std::int64_t> validation{}, test{};
  std::int64_t moved = 0;  // number of different examples that are in a split for lack of others
};

// Divides one set of examples at random, by the rules of today. An example is for validation if
// mix(hash) / 2^64 is below that share, and for the test if it is in the interval of the test share
// that follows. So the splits are the same for every seed, equal examples are in the same split,
// and one more example moves no other. Only if a class would have no example in a split, its lowest
// mixed hash that another split can spare is moved there: a class has its first example in the
// training split, the second in validation, and the third in the test. `labels` are those of the
// examples; empty: all are of one class.
HeldExamples divide_by_hash(const std::vector<std::uint64_t>& hashes,
                            const std::vector<std::int32_t>& labels, const SplitShares& shares);

// Divides the examples by these rules: 1, by validation_examples_of_classes(), without a test
// split; 2, by divide_by_hash().
HeldExamples divide_by_rules(std::int64_t rules, const std::vector<std::uint64_t>& hashes,
                             const std::vector<std::int32_t>& labels, const SplitShares& shares);

// Returns the split that a name means, in any case: 0 for train and training; 1 for validation,
// valid, val and dev; 2 for test and testing. Nothing for other names.
std::optional<int> split_named(std::string_view name);

// Returns the split that a word of the name names: that of "seg_train", "20news-bydate-train",
// "trainA" and "val2017"; nothing for words of several splits.
std::optional<int> split_in_words(std::string_view name);

// Returns the names of classes in their order: numbers by value, or names by their bytes.
std::vector<std::string> sorted_classes(const std::set<std::string>& names);

// Returns the number of examples of each class.
std::vector<std::int64_t> count_classes(const std::vector<std::int32_t>& labels,
                                        std::int64_t classes);

}  // namespace tapestry
