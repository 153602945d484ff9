#pragma once

#include <algorithm>
#include <vector>

#include "autograd/dry_run.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {

inline constexpr std::int64_t elements_a_piece = 16384;

// The elements [begin, end) of the array with this index.
struct ArrayPart {
  std::size_t array = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// A part of an array within one piece.
struct Fragment : ArrayPart {
  std::int64_t piece = 0;
};

// Returns the fragments, in order, of arrays of these numbers of elements, concatenated and cut
// into pieces of elements_a_piece elements.
inline std::vector<Fragment> fragments_of(const std::vector<std::int64_t>& sizes) {
  std::vector<Fragment> fragments;
  std::int64_t first = 0;  // index of the first element in the whole array
  for (std::size_t array = 0; array < sizes.size(); first += sizes[array++])
    for (std::int64_t begin = 0; begin < sizes[array];) {
      const std::int64_t piece = (first + begin) / elements_a_piece;
      const std::int64_t end = std::min(sizes[array], (piece + 1) * elements_a_piece - first);
      fragments.push_back({{array, begin, end}, piece});
      begin = end;
    }
  return fragments;
}

// Calls fn(fragment) for each fragment, those of one piece sequentially on one thread. So a loop
// over many small arrays or a large one is divided evenly.
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

// Calls fn for the fragments of arrays of these numbers of elements. A dry run calls nothing.
template <class Fn>
void for_each_fragment(const std::vector<std::int64_t>& sizes, Fn fn) {
  if (!is_dry_run()) for_each_fragment(fragments_of(sizes), fn);
}

}  // namespace tapestry
