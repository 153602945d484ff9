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
#include "autograd/dry_run.hpp"
#include "autograd/restore.hpp"
#include "autograd/sanitizer.hpp"

namespace tapestry {
namespace {

int default_num_threads() {
  return std::getenv("OMP_NUM_THREADS") ? omp_get_max_threads() : usable_cores();
}

// The pieces of a loop that one thread starts with: a contiguous range, the same in every loop with
// as many pieces, so that the thread reads what it wrote before. Each object has a cache line of
// its own.
struct alignas(64) Share {
  std::atomic<std::int64_t> next = 0;
  std::int64_t end = 0;
};

struct alignas(64) Worker {
  std::atomic<bool> helping = false;  // true while it may run a piece
  std::atomic<int> asleep = 0;
};

thread_local bool inside_loop = false;

// A pool of threads: the caller, number 0, and workers, which help it with one loop at a time. The
// caller waits for pieces that workers have started, but, unlike the barrier of an OpenMP loop, not
// for workers that the system has not scheduled yet.
class Pool {
 public:
  explicit Pool(int threads)
      : shares_(threads), workers_(threads), host_([this, threads] { run_team(threads - 1); }) {}

  ~Pool() {
    stopping_ = true;
    loops_ += 2;
    for (Worker& worker : workers_) wake(worker);
    host_.join();
  }

  void run(std::int64_t pieces, const std::function<void(std::int64_t piece)>& body) {
    const int team = static_cast<int>(std::min<std::int64_t>(pieces, std::ssize(shares_)));
    for (int thread = 0; thread < team; ++thread) {
      shares_[thread].next.store(thread * pieces / team, std::memory_order_relaxed);
      shares_[thread].end = (thread + 1) * pieces / team;
    }
    body_ = &body;
    team_ = team;
    ++loops_;  // odd: open
    wake_team(0);
    take_pieces(0);
    ++loops_;  // even: closed
    for (const Worker& worker : workers_)
      for (int spins = 0; worker.helping; ++spins)
        spins < spins_before_yield ? pause() : std::this_thread::yield();
  }

 private:
  static constexpr int spins_before_yield = 2000, spins_before_sleep = 4000;

  static void pause() {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }

  // Runs the workers until the pool is destroyed. For the thread sanitizer, which does not know how
  // threads of OpenMP wait for each other, they are threads of the standard library.
  void run_team(int workers) {
#if TAPESTRY_THREAD_SANITIZER
    std::vector<std::jthread> team;
    for (int i = 1; i <= workers; ++i) team.emplace_back([this, i] { work(i); });
#else
#pragma omp parallel num_threads(workers)
    work(1 + omp_get_thread_num());
#endif
  }

  void work(int thread) {
    inside_loop = true;
    Worker& self = workers_[thread];
    for (std::uint64_t seen = 0; !stopping_; seen = wait_for_loop(thread, seen)) {
      self.helping = true;
      if (loops_ % 2 == 1) {
        wake_team(thread);
        take_pieces(thread);
      }
      self.helping = false;
    }
  }

  // Waits for the next open loop after `seen` that has a range for this thread, or for the end of
  // the pool, and returns the number of the loop.
  std::uint64_t wait_for_loop(int thread, std::uint64_t seen) {
    Worker& self = workers_[thread];
    for (int spins = 0;;) {
      const std::uint64_t now = loops_;
      if (stopping_ || (now != seen && now % 2 == 1 && thread < team_)) return now;
      if (++spins < spins_before_sleep) {
        pause();
        continue;
      }
      self.asleep = 1;
      if (loops_ == now) self.asleep.wait(1);
      self.asleep = 0;
    }
  }

  // Wakes up to eight sleeping threads: waking one takes microseconds, so each thread wakes others.
  void wake_team(int thread) {
    const int first = 8 * thread + 1, last = std::min<int>(first + 8, team_);
    for (int other = first; other < last; ++other) wake(workers_[other]);
  }

  static void wake(Worker& worker) {
    if (worker.asleep == 0) return;
    worker.asleep = 0;
    worker.asleep.notify_one();
  }

  // Runs the pieces of the thread's own range, then those left in other ranges.
  void take_pieces(int thread) {
    const int team = team_;
    for (int i = 0; i < team; ++i) {
      Share& share = shares_[(thread + i) % team];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const std::int64_t piece = share.next++;
        if (piece < share.end) (*body_)(piece);
      }
    }
  }

  // Written by run() while the loop is closed and no worker helps.
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::vector<Share> shares_;
  std::atomic<int> team_ = 0;  // number of threads with a range

  std::vector<Worker> workers_;           // [0] is the caller
  std::atomic<std::uint64_t> loops_ = 0;  // number of times that a loop was opened or closed
  std::atomic<bool> stopping_ = false;
  std::thread host_;
};

// The workers and their lock: one loop at a time uses them, and another loop meanwhile runs on its
// own thread.
struct Threads {
  std::mutex mutex;
  std::atomic<int> count = default_num_threads();
  std::unique_ptr<Pool> pool;
};

// Returns the workers, which are never destroyed: they sleep until the process ends.
Threads& threads() {
  static Threads& instance = *new Threads;
  return instance;
}

}  // namespace

int num_threads() { return threads().count; }

void set_num_threads(int count) {
  require_value(count >= 1, "set_num_threads", "count", count, "1 or more");
  const std::lock_guard lock(threads().mutex);
  if (count != threads().count) threads().pool.reset();
  threads().count = count;
}

void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  require_value(grain >= 1, "parallel_for", "grain", grain, "1 or more");
  if (is_dry_run()) return;
  const std::int64_t pieces = (n + grain - 1) / grain;
  const auto run_piece = [&](std::int64_t piece) {
    body(piece * grain, std::min(n, (piece + 1) * grain));
  };
  std::unique_lock lock(threads().mutex, std::defer_lock);
  if (pieces < 2 || inside_loop || threads().count == 1 || !lock.try_lock()) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) run_piece(piece);
    return;
  }
  if (!threads().pool) threads().pool = std::make_unique<Pool>(threads().count);
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const Restore<bool> inside(inside_loop, true);
  threads().pool->run(pieces, [&](std::int64_t piece) {
    try {
      run_piece(piece);
    } catch (...) {
      const std::lock_guard failure_lock(failure_mutex);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tapestry
