#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

// Which inputs are held back from training. They are chosen by a hash, so that the choice is the
// same for every seed. Of built-in tasks one in eight, by a hash of the input itself:
namespace tapestry {

std::uint64_t mix(std::uint64_t number);  // MurmurHash3's finaliser: each bit depends on all

Split split_of(std::uint64_t number);
Split split_of(const std::vector<std::int32_t>& symbols);  // hashed by FNV-1a and half of mix

// Of examples that are counted, [0, size): so many, at most all, in rising order, by a hash of
// their numbers. A larger choice holds every smaller one.
std::vector<std::int64_t> validation_examples(std::int64_t size, std::int64_t count);

}  // namespace tapestry
