#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "autograd/memory_account.hpp"
#include "data/dataset.hpp"
#include "data/sampler.hpp"

namespace tapestry {

struct LoaderOptions {
  std::int64_t batch_size = 1;     // examples per step
  std::int64_t micro_batches = 1;  // batches that a step is divided into; divides batch_size
  // The range of micro-batches that next() returns; -1: up to the last.
  std::int64_t first_micro_batch = 0, end_micro_batch = -1;
  // Batches have their shapes only (autograd/dry_run.hpp), and next() waits until those of the next
  // steps are prepared too, as they are while a step is computed.
  bool dry_run = false;
};

// A loader that prepares the batches of each step in a thread of its own, at most `ahead` steps in
// advance. The examples of a step are sampled together and then divided, so that they do not depend
// on the number of micro-batches. Neither order nor bits depend on the threads.
class Loader final {
 public:
  static constexpr std::int64_t ahead = 2;

  // `data` must outlive the loader. Throws std::invalid_argument unless both numbers are positive,
  // micro_batches divides batch_size, and the range is within [0, micro_batches].
  Loader(const Dataset& data, Sampler sampler, const LoaderOptions& options);
  ~Loader();  // waits for the step that is being prepared
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the batches of the next step, and waits until they are prepared. Throws what the data
  // set threw for this step.
  std::vector<Batch> next();

  // Returns the number of examples before the step that next() returns next: where a run resumes.
  std::int64_t position() const { return position_; }
  void seek(std::int64_t position);  // throws std::invalid_argument after next(), or if negative

 private:
  struct Step {
    std::vector<Batch> batches{};
    std::exception_ptr failure{};  // stored instead of batches; no step is prepared after it
  };
  void make_steps();
  Step make_step();

  const Dataset& data_;
  Sampler sampler_;  // used by the thread only, once it has started
  LoaderOptions options_;
  std::shared_ptr<MemoryAccount> account_ = memory_account();  // in which batches count
  std::int64_t position_ = 0;

  std::mutex mutex_;  // guards the members below, except the thread
  std::condition_variable changed_;
  std::vector<Step> made_;  // at most `ahead`, the next step first
  bool stopping_ = false;
  std::thread maker_;
};

}  // namespace tapestry
