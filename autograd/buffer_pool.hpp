#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <string>

namespace tapestry {

// The error for a request that the system cannot serve. Its message states the requested memory,
// and the memory already held and the machine's total, or that no address space is left.
class OutOfMemory final : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override;

 private:
  std::string message_;
};

// Returns 64-byte aligned memory from a pool. A released block is reused by the next request of
// about its size, so that after a few training steps none is requested from the system. Throws
// OutOfMemory if the total exceeds the machine's memory and swap (the system grants such memory,
// but kills the process when it is written to), or if no address space is left. In a DryRun the
// block is only reserved, limited by the address space alone.
std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

// Returns temporary memory of kernels, from the same pool, which memory_use() does not count.
// Throws OutOfMemory likewise.
std::shared_ptr<std::byte[]> allocate_workspace(std::size_t bytes);

// The memory of the pool: the number of requested blocks, and sizes in bytes.
struct MemoryUse {
  std::int64_t system_allocations;  // number of blocks ever requested from the system
  std::int64_t bytes_in_use;        // held by arrays now
  std::int64_t peak_bytes_in_use;   // highest value since reset_peak_memory()
  std::int64_t bytes_held;          // requested from the system, used and idle
};
MemoryUse memory_use();
void reset_peak_memory();

// The machine's memory and swap in bytes; `memory` is what the process's control groups grant if
// that is less.
struct MachineMemory {
  std::int64_t memory, swap;
};
// Returns the memory of this machine. `root` is the root of the file system.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

// Releases the address space that dry runs reserved and no array uses.
void forget_reserved_memory();

// Makes one request throw OutOfMemory, after `count` others; -1: none. Returns the number of
// requests that were left before the one set earlier; -1 if none was set or it has failed. For
// tests.
std::int64_t fail_request_after(std::int64_t count);

// A guard that hides the idle blocks of the pool while it is in scope, so that the pool grows as in
// a new process: these blocks are neither reused nor counted as held.
class IdleSetAside {
 public:
  IdleSetAside();
  ~IdleSetAside();
  IdleSetAside(const IdleSetAside&) = delete;
  IdleSetAside& operator=(const IdleSetAside&) = delete;

 private:
  std::shared_ptr<void> blocks_;
};

}  // namespace tapestry
