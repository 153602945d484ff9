#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tapestry {

// 64-byte aligned memory from a pool. A block whose last owner is gone is kept for the next request
// of about its size, so that a training step past the first few asks the system for nothing.
std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

struct MemoryUse {
  std::int64_t system_allocations;  // blocks ever asked of the system
  std::int64_t bytes_in_use;        // held by arrays now
  std::int64_t peak_bytes_in_use;   // the most since the last reset
};
MemoryUse memory_use();
void reset_peak_memory();

}  // namespace tapestry
