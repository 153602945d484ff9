#pragma once

#include <chrono>

namespace tapestry {

// Returns seconds of a steady clock since some fixed moment: the one clock of all measurements.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tapestry
