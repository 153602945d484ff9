#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

// Which inputs of built-in tasks are held back from training: one in eight, chosen by a hash of the
// input itself, so that the choice is the same for every seed.
namespace tapestry {

std::uint64_t mix(std::uint64_t number);  // MurmurHash3's finaliser: each bit depends on all

Split split_of(std::uint64_t number);
Split split_of(const std::vector<std::int32_t>& symbols);  // hashed by FNV-1a and half of mix

}  // namespace tapestry
