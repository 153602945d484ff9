#include "autograd/buffer_pool.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "autograd/control_groups.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/sanitizer.hpp"

namespace tapestry {
namespace {

constexpr std::align_val_t alignment{64};

// Recycled blocks would hide overruns and use after free from the address sanitizer.
constexpr bool recycle = !TAPESTRY_ADDRESS_SANITIZER;

// That a group grants: "max", and a file that is not there, grant all.
std::int64_t granted_by(const std::filesystem::path& group) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const char* name : {"memory.max", "memory.limit_in_bytes"})
    if (std::int64_t bytes = 0; std::ifstream(group / name) >> bytes)
      least = std::min(least, bytes);
  return least;
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Eight sizes to every power of two, so that near sizes share blocks at a waste below 1/8.
std::size_t size_class(std::size_t bytes) {
  std::size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return std::max<std::size_t>(round_up(bytes, step), 64);
}

struct Block {
  std::byte* memory = nullptr;
  std::size_t size = 0;  // at least what was asked for
};

// Carves blocks from chunks of the system's memory on huge pages. They save a training step a
// twentieth of its time: products walk rows far apart, each of which would be on a new small page.
class Chunks {
 public:
  static constexpr std::size_t most_carved = 32 << 20;  // a larger block is a mapping of its own

  std::byte* carve(std::size_t bytes) {
    if (bytes > most_carved) return map(bytes);
    if (!chunk_ || used_ + bytes > chunk_bytes) {
      chunk_ = map(chunk_bytes);
      used_ = 0;
    }
    std::byte* block = chunk_ + used_;
    used_ += bytes + stagger;
    return block;
  }

  static void unmap(const Block& block) { std::free(block.memory); }

 private:
  static constexpr std::size_t chunk_bytes = 2 * most_carved, huge_page = 2 << 20;
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

// Of a block: memory of an array or beside arrays, or reserved alone.
enum class Kind { memory, workspace, reserved };

// Blocks of one origin. Those that are idle wait for a request of their size; only where they have
// become many, as in a training whose batches differ in length, does one serve a request of half
// its size or more, or go back to the system.
class Store {
 public:
  // An idle block, or none: then one has to be made.
  Block reuse(std::size_t bytes) {
    auto found = idle_.lower_bound(bytes);
    const bool fits = found != idle_.end() && found->first == bytes && !found->second.empty();
    if (!fits && !is_crowded(bytes)) return {};
    while (found != idle_.end() && found->second.empty()) ++found;
    if (found == idle_.end() || found->first > 2 * bytes) return {};
    const Block block = take_from(*found);
    note_use(block.size);
    return block;
  }

  void add(const Block& block) {
    held_ += block.size;
    note_use(block.size);
  }

  void keep(const Block& block) {
    in_use_ -= block.size;
    idle_[block.size].push_back(block.memory);
  }

  void drop(const Block& block) {
    in_use_ -= block.size;
    held_ -= block.size;
  }

  // Idle blocks of more than `size` go to `give_back`, the largest first, until there is room for
  // so many bytes more.
  template <class GiveBack>
  void thin_out(std::size_t bytes, std::size_t size, GiveBack give_back) {
    for (auto largest = idle_.rbegin(); largest != idle_.rend() && largest->first > size; ++largest)
      while (!largest->second.empty() && is_crowded(bytes)) {
        give_back(take_from(*largest));
        held_ -= largest->first;
      }
  }

  template <class GiveBack>
  void forget_unused(GiveBack give_back) {
    for (const auto& [size, blocks] : idle_)
      for (std::byte* memory : blocks) {
        give_back(Block{memory, size});
        held_ -= size;
      }
    idle_.clear();
    most_in_use_ = in_use_;
  }

  std::size_t held() const { return held_; }

  using Idle = std::map<std::size_t, std::vector<std::byte*>>;  // by size

  // As if it had just begun, with what is in use; and what was idle once more beside what is now.
  Idle take_idle() {
    for (const auto& [size, blocks] : idle_) held_ -= size * blocks.size();
    most_in_use_ = in_use_;
    return std::exchange(idle_, {});
  }
  void put_back(const Idle& idle) {
    for (const auto& [size, blocks] : idle) {
      held_ += size * blocks.size();
      idle_[size].insert(idle_[size].end(), blocks.begin(), blocks.end());
    }
  }

 private:
  // With so many bytes more, a quarter above what was ever in use at once.
  bool is_crowded(std::size_t bytes) const {
    constexpr std::size_t slack = 64 << 20;
    const std::size_t most = std::max(most_in_use_, in_use_ + bytes);
    return held_ + bytes > most + most / 4 + slack;
  }

  void note_use(std::size_t size) {
    in_use_ += size;
    most_in_use_ = std::max(most_in_use_, in_use_);
  }

  static Block take_from(Idle::value_type& blocks) {
    const Block block{blocks.second.back(), blocks.first};
    blocks.second.pop_back();
    return block;
  }

  Idle idle_;
  std::size_t held_ = 0, in_use_ = 0, most_in_use_ = 0;
};

class Pool {
 public:
  Block take(std::size_t bytes, Kind kind) {
    const std::lock_guard lock(mutex_);
    Store& store = store_of(kind);
    // What is reserved is recycled in every build.
    const std::size_t size = kind == Kind::reserved ? size_class(bytes) : bytes;
    Block block = store.reuse(size);
    if (!block.memory) {
      block = {kind == Kind::reserved ? reserve(size) : ask_system(size), size};
      store.add(block);
    }
    if (kind != Kind::workspace) use_.bytes_in_use += bytes;
    use_.peak_bytes_in_use = std::max(use_.peak_bytes_in_use, use_.bytes_in_use);
    return block;
  }

  void give_back(const Block& block, std::size_t bytes, Kind kind) {
    const std::lock_guard lock(mutex_);
    if (kind != Kind::workspace) use_.bytes_in_use -= bytes;
    if (recycle || kind == Kind::reserved) return store_of(kind).keep(block);
    ::operator delete[](block.memory, alignment);
    memory_.drop(block);
  }

  void forget_reserved() {
    const std::lock_guard lock(mutex_);
    reserved_.forget_unused(unreserve);
  }

  MemoryUse use() {
    const std::lock_guard lock(mutex_);
    MemoryUse now = use_;
    now.bytes_held = static_cast<std::int64_t>(memory_.held() + reserved_.held());
    return now;
  }

  Store::Idle take_idle() {
    const std::lock_guard lock(mutex_);
    return memory_.take_idle();
  }

  void put_back(const Store::Idle& idle) {
    const std::lock_guard lock(mutex_);
    memory_.put_back(idle);
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak_bytes_in_use = use_.bytes_in_use;
  }

 private:
  Store& store_of(Kind kind) { return kind == Kind::reserved ? reserved_ : memory_; }

  // Addresses that become memory, of zeros, where they are written to.
  std::byte* reserve(std::size_t bytes) {
    reserved_.thin_out(bytes, Chunks::most_carved, unreserve);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw OutOfMemory(fmt::format("no addresses are left for {:.3g} GB", gigabytes(bytes)));
    return static_cast<std::byte*>(memory);
  }

  static void unreserve(const Block& block) { munmap(block.memory, block.size); }

  std::byte* ask_system(std::size_t bytes) {
    static const MachineMemory machine = machine_memory();
    static const std::size_t limit = machine.memory + machine.swap;
    memory_.thin_out(bytes, Chunks::most_carved, Chunks::unmap);
    const std::size_t held = memory_.held();
    try {
      if (bytes > limit - std::min(limit, held)) throw std::bad_alloc();
      std::byte* memory = recycle ? chunks_.carve(bytes) : new (alignment) std::byte[bytes];
      ++use_.system_allocations;
      return memory;
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(fmt::format(
          "out of memory: {:.3g} GB more are wanted beside {:.3g} GB that are held; the "
          "machine has {:.3g} GB",
          gigabytes(bytes), gigabytes(held), gigabytes(limit)));
    }
  }

  static double gigabytes(std::size_t bytes) { return static_cast<double>(bytes) * 1e-9; }

  std::mutex mutex_;
  Chunks chunks_;
  Store memory_, reserved_;
  MemoryUse use_{};
};

// Never destroyed: arrays with static storage give their memory back after main().
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

std::shared_ptr<std::byte[]> allocate(std::size_t bytes, Kind kind) {
  const std::size_t wanted = recycle ? size_class(bytes) : std::max<std::size_t>(bytes, 1);
  const Block block = pool().take(wanted, kind);
  return {block.memory, [=](std::byte*) { pool().give_back(block, wanted, kind); }};
}

}  // namespace

std::shared_ptr<std::byte[]> allocate(std::size_t bytes) {
  return allocate(bytes, is_dry_run() ? Kind::reserved : Kind::memory);
}

std::shared_ptr<std::byte[]> allocate_workspace(std::size_t bytes) {
  return allocate(bytes, Kind::workspace);
}

MachineMemory machine_memory(const std::filesystem::path& root) {
  struct sysinfo machine {};
  constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max() / 2;
  if (sysinfo(&machine) != 0) return {unknown, 0};
  const auto unit = static_cast<std::int64_t>(machine.mem_unit);
  MachineMemory found{static_cast<std::int64_t>(machine.totalram) * unit,
                      static_cast<std::int64_t>(machine.totalswap) * unit};
  for (const std::filesystem::path& group : control_groups("memory", root))
    found.memory = std::min(found.memory, granted_by(group));
  return found;
}

MemoryUse memory_use() { return pool().use(); }
void reset_peak_memory() { pool().reset_peak(); }
void forget_reserved_memory() { pool().forget_reserved(); }

struct IdleSetAside::Blocks {
  Store::Idle idle;
};
IdleSetAside::IdleSetAside() : blocks_(new Blocks{pool().take_idle()}) {}
IdleSetAside::~IdleSetAside() { pool().put_back(blocks_->idle); }

}  // namespace tapestry
