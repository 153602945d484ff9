#pragma once

#include <algorithm>
#include <array>

#include "autograd/array.hpp"
#include "autograd/parallel.hpp"

// Loops over an array together with others whose elements are repeated or permuted.
namespace tapestry {

// The strides of an array, in elements, along each axis of a walk.
using Strides = Shape;

inline Strides strides_of(const Shape& own) {
  Strides strides = own;
  std::int64_t stride = 1;
  for (int axis = own.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= own[axis];
  }
  return strides;
}

// Returns the strides of an array of shape `own` that is broadcast to `shape`: 0 along stretched
// axes.
inline Strides broadcast_strides(const Shape& own, const Shape& shape) {
  const Strides packed = strides_of(own);
  Strides strides = shape;
  for (int axis = -1; axis >= -shape.rank(); --axis)
    strides[axis] = axis < -own.rank() || own[axis] == 1 ? 0 : packed[axis];
  return strides;
}

// A walk over the elements of `shape` in row-major order, with the strides of each array.
template <std::size_t arrays>
struct Walk {
  Shape shape;
  std::array<Strides, arrays> strides;
};

// Returns the same walk with as few axes as possible, at least one.
template <std::size_t arrays>
Walk<arrays> merged(const Walk<arrays>& walk) {
  Walk<arrays> result;
  for (int axis = 0; axis < walk.shape.rank(); ++axis) {
    const std::int64_t extent = walk.shape[axis];
    if (extent == 1) continue;
    bool follows = result.shape.rank() > 0;
    for (std::size_t i = 0; i < arrays; ++i)
      follows = follows && result.strides[i][-1] == walk.strides[i][axis] * extent;
    if (!follows) result.shape.push_back(1);
    result.shape[-1] *= extent;
    for (std::size_t i = 0; i < arrays; ++i) {
      if (!follows) result.strides[i].push_back(0);
      result.strides[i][-1] = walk.strides[i][axis];
    }
  }
  if (result.shape.rank() > 0) return result;
  result.shape.push_back(1);
  for (Strides& strides : result.strides) strides.push_back(1);
  return result;
}

// Calls fn(place, from, strides, count) on all threads for runs of elements place, place + 1, … of
// the walk. The k-th element of a run is at from[i] + k strides[i] in array i.
template <std::size_t arrays, class Fn>
void for_each_run(const Walk<arrays>& given, Fn fn) {
  constexpr std::int64_t grain = 16384;
  const Walk<arrays> walk = merged(given);
  const std::int64_t row = walk.shape[-1];
  std::array<std::int64_t, arrays> steps;
  for (std::size_t i = 0; i < arrays; ++i) steps[i] = walk.strides[i][-1];
  parallel_for(walk.shape.elements(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end;) {
      std::int64_t rest = place / row;
      const std::int64_t column = place % row, count = std::min(row - column, end - place);
      std::array<std::int64_t, arrays> from;
      for (std::size_t i = 0; i < arrays; ++i) from[i] = column * steps[i];
      for (int axis = walk.shape.rank() - 2; axis >= 0; --axis) {
        for (std::size_t i = 0; i < arrays; ++i)
          from[i] += rest % walk.shape[axis] * walk.strides[i][axis];
        rest /= walk.shape[axis];
      }
      fn(place, from, steps, count);
      place += count;
    }
  });
}

// Copies `count` elements with these steps; a step of 0 repeats the first.
template <class T>
void copy_run(std::int64_t count, const T* from, std::int64_t step, T* to, std::int64_t to_step) {
  if (to_step == 1 && step == 0)
    std::fill_n(to, count, *from);
  else if (to_step == 1 && step == 1)
    std::copy_n(from, count, to);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * step];
}

}  // namespace tapestry
