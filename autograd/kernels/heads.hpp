#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// The heads of a tensor in memory: data + b batch + h head + t time, counted in elements, is where
// row t of head h of example b starts. Its D columns stand side by side.
struct HeadsView {
  std::byte* data = nullptr;
  std::int64_t batch = 0, head = 0, time = 0;  // strides, in elements
};

// The bytes of a view, which are alike for what is read and what is written.
inline std::byte* writable(const Array& array) { return const_cast<std::byte*>(array.raw()); }

}  // namespace tapestry
