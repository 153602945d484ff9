#include "data/loader.hpp"

#include <chrono>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"

namespace tapestry {
namespace {

// Waits until `ready` returns true, as std::condition_variable::wait, which needs the libstdc++ of
// GCC 12.
template <class Ready>
void wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready ready) {
  while (!changed.wait_for(lock, std::chrono::hours(1), ready)) {
  }
}

}  // namespace

Loader::Loader(const Dataset& data, Sampler sampler, const LoaderOptions& options)
    : data_(data), sampler_(std::move(sampler)), options_(options) {
  require(options.batch_size >= 1 && options.micro_batches >= 1 &&
              options.batch_size % options.micro_batches == 0,
          "Loader: batch size {} with {} micro-batches; expected positive numbers, and a batch "
          "size that is a multiple of the number of micro-batches",
          options.batch_size, options.micro_batches);
  if (options_.end_micro_batch < 0) options_.end_micro_batch = options.micro_batches;
  require(options_.first_micro_batch >= 0 &&
              options_.first_micro_batch <= options_.end_micro_batch &&
              options_.end_micro_batch <= options.micro_batches,
          "Loader: micro-batches [{}, {}); expected a range within 0 to {}",
          options_.first_micro_batch, options_.end_micro_batch, options.micro_batches);
  position_ = sampler_.position();
  // The thread never grows the list, because it cannot report a failure to grow.
  made_.reserve(ahead);
}

Loader::~Loader() {
  if (!maker_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  maker_.join();
}

void Loader::seek(std::int64_t position) {
  require(!maker_.joinable(), "Loader: seek({}) was called after next(); call it before", position);
  sampler_.seek(position);
  position_ = position;
}

std::vector<Batch> Loader::next() {
  if (!maker_.joinable()) maker_ = std::thread([this] { make_steps(); });
  std::unique_lock lock(mutex_);
  wait_for(changed_, lock, [this] { return !made_.empty(); });
  if (made_.front().failure) std::rethrow_exception(made_.front().failure);
  std::vector<Batch> batches = std::move(made_.front().batches);
  made_.erase(made_.begin());
  changed_.notify_all();
  if (options_.dry_run)
    wait_for(changed_, lock, [this] {
      return std::ssize(made_) == ahead || (!made_.empty() && made_.back().failure);
    });
  position_ += options_.batch_size;
  return batches;
}

void Loader::make_steps() {
  const DryRun dry_run(options_.dry_run);
  const UseMemoryAccount account(account_);
  for (bool failed = false; !failed;) {
    {
      std::unique_lock lock(mutex_);
      wait_for(changed_, lock, [this] { return stopping_ || std::ssize(made_) < ahead; });
      if (stopping_) return;
    }
    Step step = make_step();
    failed = step.failure != nullptr;
    {
      const std::lock_guard lock(mutex_);
      made_.push_back(std::move(step));
    }
    changed_.notify_all();
  }
}

Loader::Step Loader::make_step() try {
  const std::vector<std::int64_t> examples = sampler_.next(options_.batch_size);
  const std::int64_t size = options_.batch_size / options_.micro_batches;
  Step step;
  for (std::int64_t micro_batch = options_.first_micro_batch;
       micro_batch < options_.end_micro_batch; ++micro_batch)
    step.batches.push_back(data_.batch(std::span(examples).subspan(micro_batch * size, size)));
  return step;
} catch (...) {
  return {.failure = std::current_exception()};
}

}  // namespace tapestry
