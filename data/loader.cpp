#include "data/loader.hpp"

#include <utility>

#include "autograd/check.hpp"
#include "autograd/rehearsal.hpp"

namespace tapestry {

Loader::Loader(const Dataset& data, Sampler sampler, const LoaderOptions& options)
    : data_(data), sampler_(std::move(sampler)), options_(options) {
  require(options.batch_size >= 1 && options.parts >= 1 && options.batch_size % options.parts == 0,
          "Loader: batches of {} in {} parts", options.batch_size, options.parts);
  if (options_.end_part < 0) options_.end_part = options.parts;
  require(options_.first_part >= 0 && options_.first_part <= options_.end_part &&
              options_.end_part <= options.parts,
          "Loader: parts [{}, {}) of {}", options_.first_part, options_.end_part, options.parts);
  position_ = sampler_.position();
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
  require(!maker_.joinable(), "Loader: seek({}) after next()", position);
  sampler_.seek(position);
  position_ = position;
}

std::vector<Batch> Loader::next() {
  if (!maker_.joinable()) maker_ = std::thread([this] { make_steps(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !made_.empty(); });
  if (made_.front().failure) std::rethrow_exception(made_.front().failure);
  std::vector<Batch> batches = std::move(made_.front().batches);
  made_.pop_front();
  changed_.notify_all();
  if (options_.rehearses)
    changed_.wait(lock, [this] {
      return std::ssize(made_) == ahead || (!made_.empty() && made_.back().failure);
    });
  position_ += options_.batch_size;
  return batches;
}

void Loader::make_steps() {
  const Rehearsal rehearsal(options_.rehearses);
  for (bool failed = false; !failed;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || std::ssize(made_) < ahead; });
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
  const std::int64_t size = options_.batch_size / options_.parts;
  Step step;
  for (std::int64_t part = options_.first_part; part < options_.end_part; ++part)
    step.batches.push_back(data_.batch(std::span(examples).subspan(part * size, size)));
  return step;
} catch (...) {
  return {.failure = std::current_exception()};
}

}  // namespace tapestry
