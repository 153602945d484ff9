#pragma once

#include <algorithm>
#include <vector>

#include "autograd/parallel.hpp"

namespace tapestry {

inline constexpr std::int64_t elements_a_piece = 16384;

// The elements [begin, end) of one of several arrays.
struct ArrayPart {
  std::size_t array = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// A part that lies in one piece.
struct Fragment : ArrayPart {
  std::int64_t piece = 0;
};

// Arrays of so many elements, laid end to end and cut into pieces of one size: what of each array
// lies in each piece, in order.
inline std::vector<Fragment> fragments_of(const std::vector<std::int64_t>& sizes) {
  std::vector<Fragment> fragments;
  std::int64_t first = 0;  // of the array, in the whole
  for (std::size_t array = 0; array < sizes.size(); first += sizes[array++])
    for (std::int64_t begin = 0; begin < sizes[array];) {
      const std::int64_t piece = (first + begin) / elements_a_piece;
      const std::int64_t end = std::min(sizes[array], (piece + 1) * elements_a_piece - first);
      fragments.push_back({{array, begin, end}, piece});
      begin = end;
    }
  return fragments;
}

// Calls fn(fragment) for each: those of a piece one after the other on one thread. So many small
// arrays are one loop, and a large one is many pieces.
template <class Fn>
void for_each_fragment(const std::vector<Fragment>& fragments, Fn fn) {
  if (fragments.empty()) return;
  const std::int64_t first = fragments.front().piece, last = fragments.back().piece;
  parallel_for(last - first + 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto at = std::ranges::lower_bound(fragments, first + begin, {}, &Fragment::piece);
         at != fragments.end() && at->piece < first + end; ++at)
      fn(*at);
  });
}

}  // namespace tapestry
