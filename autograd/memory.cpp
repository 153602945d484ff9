#include "autograd/memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

namespace tapestry {
namespace {

constexpr std::align_val_t alignment{64};

// Recycled blocks would hide overruns and use after free from the address sanitizer.
#ifdef __SANITIZE_ADDRESS__
constexpr bool recycle = false;
#else
constexpr bool recycle = true;
#endif

class Pool {
 public:
  std::byte* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    use_.bytes_in_use += static_cast<std::int64_t>(bytes);
    use_.peak_bytes_in_use = std::max(use_.peak_bytes_in_use, use_.bytes_in_use);
    if (const auto block = idle_.find(bytes); block != idle_.end()) {
      std::byte* memory = block->second;
      idle_.erase(block);
      return memory;
    }
    ++use_.system_allocations;
    return new (alignment) std::byte[bytes];
  }

  void give_back(std::byte* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    use_.bytes_in_use -= static_cast<std::int64_t>(bytes);
    if (recycle)
      idle_.emplace(bytes, memory);
    else
      ::operator delete[](memory, alignment);
  }

  MemoryUse use() {
    const std::lock_guard lock(mutex_);
    return use_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak_bytes_in_use = use_.bytes_in_use;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> idle_;
  MemoryUse use_{};
};

// Never destroyed: arrays with static storage give their memory back after main().
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

// Eight sizes to every power of two, so that near sizes share blocks at a waste below 1/8.
std::size_t size_class(std::size_t bytes) {
  std::size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return std::max<std::size_t>((bytes + step - 1) / step * step, 64);
}

}  // namespace

std::shared_ptr<std::byte[]> allocate(std::size_t bytes) {
  const std::size_t rounded = recycle ? size_class(bytes) : std::max<std::size_t>(bytes, 1);
  return {pool().take(rounded),
          [rounded](std::byte* memory) { pool().give_back(memory, rounded); }};
}

MemoryUse memory_use() { return pool().use(); }
void reset_peak_memory() { pool().reset_peak(); }

}  // namespace tapestry
