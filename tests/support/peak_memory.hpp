#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "autograd/sanitizer.hpp"

namespace tapestry {

// A line of /proc/self/status, such as VmRSS, what is in memory now, and VmHWM, its peak; in bytes.
inline std::int64_t memory_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

// By how many bytes the process's memory rises while this runs; 0 where Linux does not say, and
// under the address sanitizer, which keeps what is freed.
template <class Call>
std::int64_t peak_memory(Call call) {
  const bool reset = !TAPESTRY_ADDRESS_SANITIZER &&
                     (std::ofstream("/proc/self/clear_refs") << "5" << std::flush).good();
  const std::int64_t before = memory_status("VmRSS");
  call();
  return reset ? memory_status("VmHWM") - before : 0;
}

}  // namespace tapestry
