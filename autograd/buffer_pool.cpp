#include "autograd/buffer_pool.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "autograd/cores.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/memory_account.hpp"
#include "autograd/sanitizer.hpp"

namespace tapestry {
namespace {

constexpr std::align_val_t alignment{64};

// Recycled blocks would hide overruns and use after free from the address sanitizer.
constexpr bool recycle = !TAPESTRY_ADDRESS_SANITIZER;

// Returns the memory limit of a control group in bytes: the largest number for "max" and a missing
// file.
std::int64_t granted_by(const std::filesystem::path& group) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const char* name : {"memory.max", "memory.limit_in_bytes"})
    if (std::int64_t bytes = 0; std::ifstream(group / name) >> bytes)
      least = std::min(least, bytes);
  return least;
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Returns the size rounded up to one of the eight sizes between two powers of two, so that similar
// sizes share blocks and waste less than 1/8; below 512 bytes, to a multiple of 64 bytes.
std::size_t size_class(std::size_t bytes) {
  std::size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return std::max<std::size_t>(round_up(bytes, step), 64);
}

struct Block {
  std::byte* memory = nullptr;
  std::size_t size = 0;  // at least the requested size
};
// Blocks that are used or idle. A block changes its list without an allocation, because destructors
// release blocks, also while memory has run out.
using Blocks = std::list<Block>;

// An allocator of blocks from chunks on huge pages, which makes a training step 5 % faster: matrix
// products read rows that are far apart, and on small pages each row is on a page of its own.
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

// Returns "1.5 GB", "20 MB" or "0.512 kB".
std::string size_text(std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size >= 999.5e6) return fmt::format("{:.3g} GB", size * 1e-9);
  if (size >= 999.5e3) return fmt::format("{:.3g} MB", size * 1e-6);
  return fmt::format("{:.3g} kB", size * 1e-3);
}

// The kind of a block: memory of an array, temporary memory of a kernel, or address space only.
enum class Kind { memory, workspace, reserved };

// Blocks of one kind. Idle blocks wait for a request of their size. If there are too many, as in a
// training with batches of different lengths, one also serves a request of half its size or more,
// or is returned to the system.
class Store {
 public:
  // Returns an idle block, or nothing if a new one has to be made.
  std::optional<Blocks::iterator> reuse(std::size_t bytes) {
    auto found = idle_.lower_bound(bytes);
    const bool fits = found != idle_.end() && found->first == bytes && !found->second.empty();
    if (!fits && !is_crowded(bytes)) return std::nullopt;
    while (found != idle_.end() && found->second.empty()) ++found;
    if (found == idle_.end() || found->first > 2 * bytes) return std::nullopt;
    return use(found->second);
  }

  // Adds a used block whose memory `make` returns.
  template <class Make>
  Blocks::iterator add(std::size_t size, Make make) {
    Blocks made = {{nullptr, size}};
    idle_.try_emplace(size);
    made.front().memory = make();
    held_ += size;
    return use(made);
  }

  void keep(Blocks::iterator block) {
    in_use_ -= block->size;
    Blocks& idle = idle_.find(block->size)->second;
    idle.splice(idle.begin(), used_, block);
  }

  void drop(Blocks::iterator block) {
    in_use_ -= block->size;
    held_ -= block->size;
    used_.erase(block);
  }

  // Passes idle blocks larger than `size` to `give_back`, the largest first, until `bytes` more
  // fit.
  template <class GiveBack>
  void thin_out(std::size_t bytes, std::size_t size, GiveBack give_back) {
    for (auto largest = idle_.rbegin(); largest != idle_.rend() && largest->first > size; ++largest)
      while (!largest->second.empty() && is_crowded(bytes)) {
        give_back(largest->second.front());
        held_ -= largest->first;
        largest->second.pop_front();
      }
  }

  void forget_peak() { most_in_use_ = in_use_; }

  std::size_t held() const { return held_; }

  // Removes and returns all idle blocks; put_back() adds them again.
  Blocks take_idle() {
    Blocks taken;
    for (auto& [size, blocks] : idle_) {
      held_ -= size * blocks.size();
      taken.splice(taken.end(), blocks);
    }
    forget_peak();
    return taken;
  }
  void put_back(Blocks& taken) {
    while (!taken.empty()) {
      const std::size_t size = taken.front().size;
      held_ += size;
      Blocks& idle = idle_.find(size)->second;
      idle.splice(idle.end(), taken, taken.begin());
    }
  }

 private:
  // Returns whether the held memory and `bytes` more exceed the highest use, with this request, by
  // more than a quarter and 64 MiB.
  bool is_crowded(std::size_t bytes) const {
    constexpr std::size_t slack = 64 << 20;
    const std::size_t most = std::max(most_in_use_, in_use_ + bytes);
    return held_ + bytes > most + most / 4 + slack;
  }

  // Moves the first of the blocks to the used ones, and returns its place there.
  Blocks::iterator use(Blocks& blocks) {
    used_.splice(used_.begin(), blocks, blocks.begin());
    in_use_ += used_.front().size;
    most_in_use_ = std::max(most_in_use_, in_use_);
    return used_.begin();
  }

  std::map<std::size_t, Blocks> idle_;  // keyed by size; has every size that a block ever had
  Blocks used_;
  std::size_t held_ = 0, in_use_ = 0, most_in_use_ = 0;
};

class Pool {
 public:
  Blocks::iterator take(std::size_t bytes, Kind kind) {
    const std::lock_guard lock(mutex_);
    if (fails_after_ >= 0 && fails_after_-- == 0) throw OutOfMemory("out of memory: in a test");
    Store& store = store_of(kind);
    // Reserved blocks are recycled in every build.
    const std::size_t size = kind == Kind::reserved ? size_class(bytes) : bytes;
    const std::optional<Blocks::iterator> idle = store.reuse(size);
    const Blocks::iterator block = idle ? *idle : store.add(size, [&] {
      return kind == Kind::reserved ? reserve(size) : ask_system(size);
    });
    if (kind != Kind::workspace) use_.bytes_in_use += bytes;
    use_.peak_bytes_in_use = std::max(use_.peak_bytes_in_use, use_.bytes_in_use);
    return block;
  }

  void give_back(Blocks::iterator block, std::size_t bytes, Kind kind) {
    const std::lock_guard lock(mutex_);
    if (kind != Kind::workspace) use_.bytes_in_use -= bytes;
    if (recycle || kind == Kind::reserved) return store_of(kind).keep(block);
    ::operator delete[](block->memory, alignment);
    memory_.drop(block);
  }

  void forget_reserved() {
    const std::lock_guard lock(mutex_);
    for (const Block& block : reserved_.take_idle()) unreserve(block);
  }

  MemoryUse use() {
    const std::lock_guard lock(mutex_);
    MemoryUse now = use_;
    now.bytes_held = static_cast<std::int64_t>(memory_.held() + reserved_.held());
    return now;
  }

  Blocks take_idle() {
    const std::lock_guard lock(mutex_);
    return memory_.take_idle();
  }

  void put_back(Blocks& taken) {
    const std::lock_guard lock(mutex_);
    memory_.put_back(taken);
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

  // Returns address space that becomes memory when it is written to. Throws OutOfMemory if there is
  // none.
  std::byte* reserve(std::size_t bytes) {
    reserved_.thin_out(bytes, Chunks::most_carved, unreserve);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw OutOfMemory(
          fmt::format("out of memory: no address space is left for {}; raise the limit (ulimit -v)",
                      size_text(bytes)));
    return static_cast<std::byte*>(memory);
  }

  static void unreserve(const Block& block) { munmap(block.memory, block.size); }

  std::byte* ask_system(std::size_t bytes) {
    static const MachineMemory machine = machine_memory();
    static const std::size_t limit = machine.memory + machine.swap;
    const auto exceeds = [&] { return bytes > limit - std::min(limit, memory_.held()); };
    memory_.thin_out(bytes, Chunks::most_carved, Chunks::unmap);
    if (exceeds()) {  // as after a model that did not fit
      memory_.forget_peak();
      memory_.thin_out(bytes, Chunks::most_carved, Chunks::unmap);
    }
    const std::size_t held = memory_.held();
    const bool exceeds_machine = exceeds();
    try {
      if (exceeds_machine) throw std::bad_alloc();
      std::byte* memory = recycle ? chunks_.carve(bytes) : new (alignment) std::byte[bytes];
      ++use_.system_allocations;
      return memory;
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(
          fmt::format("out of memory: {} requested in addition to {}; the machine "
                      "has {}{}",
                      size_text(bytes), size_text(held), size_text(limit),
                      exceeds_machine ? "" : ", but the address space is limited (ulimit -v)"));
    }
  }

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

thread_local MemoryAccount* account_in_force = nullptr;

// Bytes that count in the account of this thread, if it has one, until the object is destroyed.
class Charge {
 public:
  explicit Charge(std::size_t bytes)
      : account_(memory_account()), bytes_(static_cast<std::int64_t>(bytes)) {
    if (account_) account_->take(bytes_);
  }
  ~Charge() {
    if (account_) account_->give_back(bytes_);
  }
  Charge(Charge&&) = default;  // leaves no account behind

 private:
  std::shared_ptr<MemoryAccount> account_;
  std::int64_t bytes_;
};

std::shared_ptr<std::byte[]> allocate(std::size_t bytes, Kind kind) {
  const std::size_t wanted = recycle ? size_class(bytes) : std::max<std::size_t>(bytes, 1);
  Charge charge(kind == Kind::workspace ? 0 : wanted);
  const Blocks::iterator block = pool().take(wanted, kind);
  return {block->memory,
          [=, charge = std::move(charge)](std::byte*) { pool().give_back(block, wanted, kind); }};
}

}  // namespace

void MemoryAccount::take(std::int64_t bytes) {
  const std::int64_t before = in_use_.fetch_add(bytes);
  if (bytes <= limit_ - before) return;
  in_use_ -= bytes;
  throw OutOfMemory(fmt::format("out of memory: {} requested in addition to {}; the limit is {}",
                                size_text(bytes), size_text(before), size_text(limit_)));
}

UseMemoryAccount::UseMemoryAccount(std::shared_ptr<MemoryAccount> account)
    : Restore(account_in_force, account.get()), account_(std::move(account)) {}

std::shared_ptr<MemoryAccount> memory_account() {
  return account_in_force ? account_in_force->shared_from_this() : nullptr;
}

const char* OutOfMemory::what() const noexcept { return message_.c_str(); }

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

IdleSetAside::IdleSetAside() : blocks_(std::make_shared<Blocks>(pool().take_idle())) {}
IdleSetAside::~IdleSetAside() { pool().put_back(*static_cast<Blocks*>(blocks_.get())); }

}  // namespace tapestry
