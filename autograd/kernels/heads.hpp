#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// Where element (batch b, head h, time t, column 0) of a tensor stands: D columns follow it.
struct HeadsView {
  std::byte* data = nullptr;
  std::int64_t batch = 0, head = 0, time = 0;  // strides, in elements
};

}  // namespace tapestry
