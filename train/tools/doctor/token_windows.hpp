#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

// The tokens that a split's examples are windows of, example i + 1 being one token behind example
// i; from the first on, some ten millions of them at most. None where its examples are no such.
std::optional<std::vector<std::int32_t>> windowed_tokens(const Dataset& data);

// Shows a hash of each `length` tokens that stand side by side, from the first on (Karp and Rabin
// 1987, "Efficient Randomized Pattern-Matching Algorithms").
void hash_windows(std::span<const std::int32_t> tokens, std::int64_t length,
                  const std::function<void(std::uint64_t)>& show);

}  // namespace tapestry
