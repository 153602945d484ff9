#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

// The choice of the inputs of the validation split by a hash, so that it is the same for every
// seed. For synthetic tasks it is one input in eight, by a hash of the input.
namespace tapestry {

// Returns MurmurHash3's finalizer of a number, in which each bit depends on all bits.
std::uint64_t mix(std::uint64_t number);

Split split_of(std::uint64_t number);
Split split_of(const std::vector<std::int32_t>& symbols);  // hashed by FNV-1a and half of mix

// Returns `count` of the examples [0, size), in ascending order, chosen by a hash of their indices.
// A larger choice contains every smaller one. Throws std::invalid_argument for a larger count.
std::vector<std::int64_t> validation_examples(std::int64_t size, std::int64_t count);

// Returns this share of the examples of each label, in ascending order, chosen as above; at least
// one if a label has two examples.
std::vector<std::int64_t> validation_examples_of_classes(const std::vector<std::int32_t>& labels,
                                                         double share);

}  // namespace tapestry
