#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "autograd/parallel.hpp"

namespace tapestry {

inline constexpr std::int64_t elements_a_piece = 16384;

// Calls fn(piece, array, begin, end) for parts of arrays that have so many elements: they are laid
// end to end and cut into pieces of one size, which threads share. So many small arrays are one
// loop, and a large one is many pieces.
template <class Fn>
void for_each_part(const std::vector<std::int64_t>& sizes, Fn fn) {
  std::vector<std::int64_t> ends(sizes.size());
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  const std::int64_t total = ends.empty() ? 0 : ends.back();
  parallel_for(total, elements_a_piece, [&](std::int64_t begin, std::int64_t end) {
    auto array = std::ranges::upper_bound(ends, begin) - ends.begin();
    for (std::int64_t at = begin; at < end; ++array) {
      const std::int64_t first = ends[array] - sizes[array], stop = std::min(end, ends[array]);
      if (at < stop) fn(begin / elements_a_piece, array, at - first, stop - first);
      at = stop;
    }
  });
}

}  // namespace tapestry
