#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "autograd/restore.hpp"

namespace tapestry {

// A limit of the total size of some arrays, those that threads allocate under UseMemoryAccount.
class MemoryAccount final : public std::enable_shared_from_this<MemoryAccount> {
 public:
  explicit MemoryAccount(std::int64_t limit) : limit_(limit) {}

  std::int64_t limit() const { return limit_; }
  std::int64_t bytes_in_use() const { return in_use_; }
  void take(std::int64_t bytes);  // throws OutOfMemory beyond the limit
  void give_back(std::int64_t bytes) { in_use_ -= bytes; }

 private:
  std::int64_t limit_;
  std::atomic<std::int64_t> in_use_ = 0;
};

// A guard under which arrays that this thread allocates count in an account until they are
// released, on any thread and also in a DryRun. Null: they count in none.
class UseMemoryAccount final : Restore<MemoryAccount*> {
 public:
  explicit UseMemoryAccount(std::shared_ptr<MemoryAccount> account);

 private:
  std::shared_ptr<MemoryAccount> account_;
};
std::shared_ptr<MemoryAccount> memory_account();  // returns that of this thread, which may be null

}  // namespace tapestry
