#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

// The choice of the inputs of the validation split by a hash, so that the split is the same for
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

}  // namespace tapestry
