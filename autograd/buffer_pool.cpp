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

#include "autograd/cores.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/sanitizer.hpp"

namespace tapestry {
namespace {

constexpr std::align_val_t alignment{64};

// Recycled blocks would hide overruns and use after free from the address sanitizer.
constexpr bool recycle = !TAPESTRY_ADDRESS_SANITIZER;

// Returns the memory limit of a control group in bytes: unlimited for "max" and a missing file.
std::int64_t granted_by(const std::filesystem::path& group) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const char* name : {"memory.max", "memory.limit_in_bytes"})
    if (std::int64_t bytes = 0; std::ifstream(group / name) >> bytes)
      least = std::min(least, bytes);
  return least;
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Rounds a size up to one of eight for each power of two, so that similar sizes share blocks and
// waste less than 1/8.
std::size_t size_class(std::size_t bytes) {
  std::size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return std::max<std::size_t>(round_up(bytes, step), 64);
}

struct Block {
  std::byte* memory = nullptr;
  std::size_t size = 0;  // at least the requested size
};

// An allocator of blocks from chunks on huge pages, which makes a training step 5 % faster: matrix
// products read rows that are far apart, each on another small page.
class Chunks {
 public:
  static constexpr std::size_t most_carved = 32 << 20;  // larger blocks have a mapping of their own

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
  // Prevents blocks of 2^n bytes from competing for the same cache lines.
  static constexpr std::size_t stagger = 192;

  static std::byte* map(std::size_t bytes) {
    const std::size_t rounded = round_up(bytes, huge_page);
    void* memory = std::aligned_alloc(huge_page, rounded);
    if (!memory) throw std::bad_alloc();      // the address space of the process is limited
    madvise(memory, rounded, MADV_HUGEPAGE);  // only advice: it may fail
    return static_cast<std::byte*>(memory);
  }

  std::byte* chunk_ = nullptr;
  std::size_t used_ = 0;
};

// The kind of a block: memory of an array, temporary memory of a kernel, or address space only.
enum class Kind { memory, workspace, reserved };

// Blocks of one kind. Idle blocks wait for a request of their size. If there are too many, as in a
// training with batches of different lengths, one also serves a request of half its size or more,
// or is returned to the system.
class Store {
 public:
  // Returns an idle block, or an empty one if a new one has to be made.
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

  // Passes idle blocks larger than `size` to `give_back`, the largest first, until `bytes` more
  // fit.
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

  using Idle = std::map<std::size_t, std::vector<std::byte*>>;  // keyed by size

  // Remove all idle blocks, and add them again.
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
  // Returns whether `bytes` more exceed the highest use so far by more than a quarter.
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
    if (fails_after_ >= 0 && fails_after_-- == 0) throw OutOfMemory("out of memory: in a test");
    Store& store = store_of(kind);
    // Reserved blocks are recycled in every build.
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

  std::int64_t fail_after(std::int64_t count) {
    const std::lock_guard lock(mutex_);
    return std::exchange(fails_after_, count);
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak_bytes_in_use = use_.bytes_in_use;
  }

 private:
  Store& store_of(Kind kind) { return kind == Kind::reserved ? reserved_ : memory_; }

  // Returns address space that becomes memory when it is written to.
  std::byte* reserve(std::size_t bytes) {
    reserved_.thin_out(bytes, Chunks::most_carved, unreserve);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw OutOfMemory(
          fmt::format("out of memory: no address space is left for {:.3g} GB", gigabytes(bytes)));
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
          "out of memory: {:.3g} GB requested in addition to {:.3g} GB; the machine has {:.3g} GB",
          gigabytes(bytes), gigabytes(held), gigabytes(limit)));
    }
  }

  static double gigabytes(std::size_t bytes) { return static_cast<double>(bytes) * 1e-9; }

  std::mutex mutex_;
  Chunks chunks_;
  Store memory_, reserved_;
  MemoryUse use_{};
  std::int64_t fails_after_ = -1;  // number of requests until one fails; -1: none
};

// Returns the pool, which is never destroyed, because static arrays release memory after main().
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
std::int64_t fail_request_after(std::int64_t count) { return pool().fail_after(count); }
void forget_reserved_memory() { pool().forget_reserved(); }

struct IdleSetAside::Blocks {
  Store::Idle idle;
};
IdleSetAside::IdleSetAside() : blocks_(new Blocks{pool().take_idle()}) {}
IdleSetAside::~IdleSetAside() { pool().put_back(blocks_->idle); }

}  // namespace tapestry
