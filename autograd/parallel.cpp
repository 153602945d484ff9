#include "autograd/parallel.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/cores.hpp"
#include "autograd/sanitizer.hpp"

namespace tapestry {
namespace {

int default_num_threads() {
  return std::getenv("OMP_NUM_THREADS") ? omp_get_max_threads() : usable_cores();
}

// Worker threads, an OpenMP team, that help the calling thread with one loop at a time. The caller
// waits for pieces that a worker has begun, but not for a worker that has not come because the
// system runs something else on its core. The barrier of an OpenMP loop would wait for it.
class Pool {
 public:
  explicit Pool(int workers) : host_([this, workers] { run_team(workers); }) {}

  ~Pool() {
    stopping_ = true;
    ring();
    host_.join();
  }

  void run(std::int64_t pieces, const std::function<void(std::int64_t piece)>& body) {
    body_ = &body;
    pieces_ = pieces;
    next_ = 0;
    open_ = true;
    ring();
    take_pieces();
    open_ = false;
    for (int spins = 0; helping_ > 0; ++spins)
      spins < spins_before_yield ? pause() : std::this_thread::yield();
  }

 private:
  static constexpr int spins_before_yield = 2000, spins_before_sleep = 4000;

  static void pause() {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }

  // The thread sanitizer does not see how OpenMP's threads wait for each other.
  void run_team(int workers) {
#if TAPESTRY_THREAD_SANITIZER
    std::vector<std::jthread> team;
    for (int i = 0; i < workers; ++i) team.emplace_back([this] { work(); });
#else
#pragma omp parallel num_threads(workers)
    work();
#endif
  }

  void work() {
    for (std::uint32_t seen = 0; !stopping_; seen = wait_for_ring(seen)) {
      ++helping_;
      if (open_) take_pieces();
      --helping_;
    }
  }

  void ring() {
    ++rings_;
    rings_.notify_all();
  }

  std::uint32_t wait_for_ring(std::uint32_t seen) {
    for (int spins = 0; spins < spins_before_sleep && rings_ == seen; ++spins) pause();
    rings_.wait(seen);
    return rings_;
  }

  void take_pieces() {
    for (std::int64_t piece = next_++; piece < pieces_; piece = next_++) (*body_)(piece);
  }

  // Written by run() while the loop is closed and nobody helps.
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::int64_t pieces_ = 0;
  std::atomic<std::int64_t> next_ = 0;

  std::atomic<bool> open_ = false;        // whether pieces may be taken
  std::atomic<int> helping_ = 0;          // workers that may be in a piece
  std::atomic<std::uint32_t> rings_ = 0;  // how often the workers were called
  std::atomic<bool> stopping_ = false;
  std::thread host_;
};

// One loop has the workers at a time; another that comes meanwhile runs on its own thread.
struct Workers {
  std::mutex mutex;
  std::atomic<int> threads = default_num_threads();
  std::unique_ptr<Pool> pool;
};

// Never destroyed: the workers sleep until the process ends.
Workers& workers() {
  static Workers& instance = *new Workers;
  return instance;
}

thread_local bool inside_loop = false;

}  // namespace

int num_threads() { return workers().threads; }

void set_num_threads(int count) {
  require(count >= 1, "set_num_threads({}): at least 1", count);
  const std::lock_guard lock(workers().mutex);
  if (count != workers().threads) workers().pool.reset();
  workers().threads = count;
}

void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  require(grain >= 1, "parallel_for: a grain of {}", grain);
  const std::int64_t pieces = (n + grain - 1) / grain;
  const auto run_piece = [&](std::int64_t piece) {
    body(piece * grain, std::min(n, (piece + 1) * grain));
  };
  std::unique_lock lock(workers().mutex, std::defer_lock);
  if (pieces < 2 || inside_loop || workers().threads == 1 || !lock.try_lock()) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) run_piece(piece);
    return;
  }
  if (!workers().pool) workers().pool = std::make_unique<Pool>(std::max(1, workers().threads - 1));
  std::exception_ptr failure;
  std::mutex failure_mutex;
  workers().pool->run(pieces, [&](std::int64_t piece) {
    inside_loop = true;
    try {
      run_piece(piece);
    } catch (...) {
      const std::lock_guard failure_lock(failure_mutex);
      failure = std::current_exception();
    }
    inside_loop = false;
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tapestry
