#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace tapestry {

// Where the largest of at least one value stands; of several that are equal, the first.
inline std::int64_t argmax(std::span<const float> values) {
  return std::ranges::max_element(values) - values.begin();
}

}  // namespace tapestry
