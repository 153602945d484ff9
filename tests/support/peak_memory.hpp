#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "autograd/sanitizer.hpp"

namespace tapestry {

// Returns a line of /proc/self/status in bytes, such as VmRSS (now) and VmHWM (peak).
inline std::int64_t memory_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

// Returns the rise of the process's memory in bytes during the call; 0 if unknown, and under the
// address sanitizer, which delays freeing.
template <class Call>
std::int64_t peak_memory(Call call) {
  const bool reset = !TAPESTRY_ADDRESS_SANITIZER &&
                     (std::ofstream("/proc/self/clear_refs") << "5" << std::flush).good();
  const std::int64_t before = memory_status("VmRSS");
  call();
  return reset ? memory_status("VmHWM") - before : 0;
}

}  // namespace tapestry
