#include "autograd/buffer_pool.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "autograd/sanitizer.hpp"

namespace tapestry {
namespace {

constexpr std::align_val_t alignment{64};

// Recycled blocks would hide overruns and use after free from the address sanitizer.
constexpr bool recycle = !TAPESTRY_ADDRESS_SANITIZER;

// Memory and swap, in bytes.
std::size_t machine_memory() {
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return std::numeric_limits<std::size_t>::max();
  return (machine.totalram + machine.totalswap) * machine.mem_unit;
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Carves blocks from chunks of the system's memory on huge pages. They save a training step a
// twentieth of its time: products walk rows far apart, each of which would be on a new small page.
class Chunks {
 public:
  std::byte* carve(std::size_t bytes) {
    if (bytes > chunk_bytes / 2) return map(bytes);
    if (!chunk_ || used_ + bytes > chunk_bytes) {
      chunk_ = map(chunk_bytes);
      used_ = 0;
    }
    std::byte* block = chunk_ + used_;
    used_ += bytes + stagger;
    return block;
  }

 private:
  static constexpr std::size_t chunk_bytes = 64 << 20, huge_page = 2 << 20;
  // Keeps blocks of a power of two bytes from competing for the same lines of the caches.
  static constexpr std::size_t stagger = 192;

  static std::byte* map(std::size_t bytes) {
    const std::size_t rounded = round_up(bytes, huge_page);
    void* memory = std::aligned_alloc(huge_page, rounded);
    if (!memory) throw std::bad_alloc();      // of a limit on the process
    madvise(memory, rounded, MADV_HUGEPAGE);  // advice: nothing is lost where it is not taken
    return static_cast<std::byte*>(memory);
  }

  std::byte* chunk_ = nullptr;
  std::size_t used_ = 0;
};

class Pool {
 public:
  std::byte* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::byte* memory = nullptr;
    if (std::vector<std::byte*>& idle = idle_[bytes]; !idle.empty()) {
      memory = idle.back();
      idle.pop_back();
    } else {
      memory = ask_system(bytes);
    }
    use_.bytes_in_use += bytes;
    use_.peak_bytes_in_use = std::max(use_.peak_bytes_in_use, use_.bytes_in_use);
    return memory;
  }

  void give_back(std::byte* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    use_.bytes_in_use -= bytes;
    if (recycle) {
      idle_[bytes].push_back(memory);
    } else {
      ::operator delete[](memory, alignment);
      held_ -= bytes;
    }
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
  std::byte* ask_system(std::size_t bytes) {
    static const std::size_t limit = machine_memory();
    try {
      if (bytes > limit - std::min(limit, held_)) throw std::bad_alloc();
      std::byte* memory = recycle ? chunks_.carve(bytes) : new (alignment) std::byte[bytes];
      held_ += bytes;
      ++use_.system_allocations;
      return memory;
    } catch (const std::bad_alloc&) {
      const auto gigabytes = [](std::size_t n) { return static_cast<double>(n) * 1e-9; };
      throw OutOfMemory(fmt::format(
          "out of memory: {:.3g} GB more are wanted beside {:.3g} GB that are held; the "
          "machine has {:.3g} GB",
          gigabytes(bytes), gigabytes(held_), gigabytes(limit)));
    }
  }

  std::mutex mutex_;
  std::size_t held_ = 0;  // of the system's memory, idle blocks included
  Chunks chunks_;
  std::map<std::size_t, std::vector<std::byte*>> idle_;  // by size
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
  return std::max<std::size_t>(round_up(bytes, step), 64);
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
