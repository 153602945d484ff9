#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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
// While the thread rehearses, the block is reserved alone: it takes part in no limit.
std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

// The same for what a kernel keeps beside arrays: it is not counted as theirs.
std::shared_ptr<std::byte[]> allocate_workspace(std::size_t bytes);

struct MemoryUse {
  std::int64_t system_allocations;  // blocks ever asked of the system
  std::int64_t bytes_in_use;        // held by arrays now
  std::int64_t peak_bytes_in_use;   // the most since the last reset
  std::int64_t bytes_held;          // of the system, with what waits for the next request
};
MemoryUse memory_use();
void reset_peak_memory();

// What the machine has, of which a control group may grant less: bytes.
struct MachineMemory {
  std::int64_t memory, swap;
};
MachineMemory machine_memory(const std::filesystem::path& root = "/");  // "/" of its files

// Gives the system back what rehearsals reserved and no array holds any more.
void forget_reserved_memory();

// While it lives, what was idle at its begin is neither lent nor counted as held, so that the pool
// grows as that of a new process does.
class IdleSetAside {
 public:
  IdleSetAside();
  ~IdleSetAside();
  IdleSetAside(const IdleSetAside&) = delete;
  IdleSetAside& operator=(const IdleSetAside&) = delete;

 private:
  struct Blocks;
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace tapestry
