#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

namespace tapestry {

// More was asked for than there is. The message says how much, beside what, and of how much.
class OutOfMemory final : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// 64-byte aligned memory from a pool. A block whose last owner is gone is kept for the next request
// of about its size, so that a training step past the first few asks the system for nothing.
// OutOfMemory as soon as all that is held exceeds the machine's memory and swap: the system itself
// would grant it, and kill the process when it is written to.
std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

struct MemoryUse {
  std::int64_t system_allocations;  // blocks ever asked of the system
  std::int64_t bytes_in_use;        // held by arrays now
  std::int64_t peak_bytes_in_use;   // the most since the last reset
};
MemoryUse memory_use();
void reset_peak_memory();

}  // namespace tapestry
