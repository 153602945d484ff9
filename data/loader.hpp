#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/dataset.hpp"
#include "data/sampler.hpp"

namespace tapestry {

struct LoaderOptions {
  std::int64_t batch_size = 1;     // examples of a step
  std::int64_t micro_batches = 1;  // batches that they are cut into; divides batch_size
  std::int64_t first_micro_batch = 0,
               end_micro_batch = -1;  // of those, what next() returns; -1: to the last
  // Batches are made by their shapes alone (autograd/dry_run.hpp), and next() returns when those
  // ahead are there as well, as they are while a step is computed.
  bool dry_run = false;
};

// The batches of one step after the other, made ahead by a thread of its own, at most `ahead` steps
// before they are asked for. What a step reads is drawn at once and then cut, so that it does not
// depend on the parts. Neither order nor bits depend on the threads.
class Loader final {
 public:
  static constexpr std::int64_t ahead = 2;

  // The data outlive it.
  Loader(const Dataset& data, Sampler sampler, const LoaderOptions& options);
  ~Loader();  // waits for the batch that is being made
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next step's batches, waited for where they are not there yet. Throws, at its step, what the
  // data threw.
  std::vector<Batch> next();

  // How many examples the steps that next() has returned have read: where a resumed run goes on.
  std::int64_t position() const { return position_; }
  void seek(std::int64_t position);  // before the first next()

 private:
  struct Step {
    std::vector<Batch> batches{};
    std::exception_ptr failure{};  // instead of batches: the last step made
  };
  void make_steps();
  Step make_step();

  const Dataset& data_;
  Sampler sampler_;  // of the maker alone, once that has begun
  LoaderOptions options_;
  std::int64_t position_ = 0;

  std::mutex mutex_;  // of what stands below, but for the maker
  std::condition_variable changed_;
  std::deque<Step> made_;
  bool stopping_ = false;
  std::thread maker_;
};

}  // namespace tapestry
