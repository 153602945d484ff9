#include "train/distributed/messenger.hpp"

#include <fmt/ranges.h>

#include <memory>
#include <utility>

namespace tapestry {

using namespace std::chrono_literals;

Messenger::Messenger(std::function<Transport*()> open)
    : thread_([this, open = std::move(open)] { run(open); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return transport_ || failure_; });
  if (transport_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(failure_);
}

Messenger::~Messenger() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_something_.notify_one();
  thread_.join();
}

void Messenger::abort(int status) {
  {
    const std::lock_guard lock(mutex_);
    abort_status_ = status;
  }
  posted_something_.notify_one();
}

void Messenger::at(const std::string& place) {
  const std::lock_guard lock(mutex_);
  place_ = place;
}

void Messenger::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  posted_something_.notify_one();
}

void Messenger::wait(const std::function<bool()>& ready, const std::string& what,
                     std::function<std::vector<int>()> missing) {
  std::unique_lock lock(mutex_);
  waits_for_ = what;
  missing_ = std::move(missing);
  waiting_ = true;
  posted_something_.notify_one();
  changed_.wait(lock, [&] { return failure_ || ready(); });
  waiting_ = false;
  missing_ = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

void Messenger::watch(const std::atomic<bool>& stop,
                      std::function<void(const std::string&)> report) {
  post([this, &stop, report = std::move(report)] {
    stop_ = &stop;
    report_ = report;
  });
}

void Messenger::send(int to, int tag, std::span<const std::byte> bytes, Done done) {
  bytes_sent_ += bytes.size();
  transport_->send(begun(std::move(done)), to, tag, bytes.data(), bytes.size());
}

void Messenger::receive(int from, int tag, std::span<std::byte> bytes, Done done) {
  transport_->receive(begun(std::move(done)), from, tag, bytes.data(), bytes.size());
}

int Messenger::begun(Done done) {
  int number = static_cast<int>(under_way_.size());
  if (free_numbers_.empty()) {
    under_way_.emplace_back();
  } else {
    number = free_numbers_.back();
    free_numbers_.pop_back();
  }
  under_way_[number] = std::move(done);
  return number;
}

void Messenger::run(const std::function<Transport*()>& open) {
  std::unique_ptr<Transport> transport;
  try {
    transport.reset(open());
    {
      const std::lock_guard lock(mutex_);
      transport_ = transport.get();
    }
    changed_.notify_all();
    exchange_messages();
    transport->finish();
  } catch (...) {  // owners of the messages may be destroyed from here on
    std::unique_lock lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
    if (!transport) return;
    posted_something_.wait(lock, [this] { return stopping_ || abort_status_; });
    if (abort_status_) transport->abort(*abort_status_);
  }
}

void Messenger::exchange_messages() {
  while (!is_finished()) {
    const bool worked = do_posted(), heard = take_done();
    if (worked || heard) {
      // Locks, so that a thread that starts to wait does not miss the notification.
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
      quiet_since_ = Clock::now();
    } else {
      look_for_the_dead();
      rest();
    }
  }
}

bool Messenger::is_finished() {
  const std::lock_guard lock(mutex_);
  return stopping_ && posted_.empty() && nothing_under_way();
}

bool Messenger::do_posted() {
  std::deque<std::function<void()>> works;
  {
    const std::lock_guard lock(mutex_);
    if (abort_status_) transport_->abort(*abort_status_);
    works.swap(posted_);
  }
  for (const std::function<void()>& work : works) work();
  return !works.empty();
}

bool Messenger::take_done() {
  int numbers[64];
  const std::size_t count = transport_->take_done(numbers, std::size(numbers));
  for (std::size_t i = 0; i < count; ++i) {
    const Done done = std::move(under_way_[numbers[i]]);
    free_numbers_.push_back(numbers[i]);
    if (done) done();
  }
  return count > 0;
}

// Pauses between polls: up to 1 ms while this process computes, to leave the core to the
// computation. While this process waits, pauses only after 2 ms without a message, for 50 µs each,
// because other processes may need the core.
void Messenger::rest() {
  std::unique_lock lock(mutex_);
  if (!posted_.empty() || abort_status_ || (stopping_ && nothing_under_way())) return;
  const bool waits = waiting_;
  if (waits && !waited_) quiet_since_ = Clock::now();
  waited_ = waits;
  const auto quiet = Clock::now() - quiet_since_;
  if (nothing_under_way()) {
    posted_something_.wait_for(lock, 100ms);
  } else if (waits && quiet < 2ms) {
    lock.unlock();
    std::this_thread::yield();
  } else if (waits) {
    lock.unlock();
    std::this_thread::sleep_for(50us);
  } else {
    posted_something_.wait_for(lock, quiet < 1ms ? 50us : quiet < 10ms ? 250us : 1000us);
  }
}

void Messenger::look_for_the_dead() {
  if (!stop_ || !*stop_) {
    stopped_since_.reset();
    return;
  }
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_ || !missing_) return stopped_since_.reset();
    if (!stopped_since_) stopped_since_ = Clock::now();
    const std::vector<int> missing = missing_();
    // Rank 0 may be slow and wait for the dead one itself. mpirun kills all after a second.
    const auto patience = missing == std::vector{0} ? 600ms : 300ms;
    if (Clock::now() - *stopped_since_ < patience) return;
    line = fmt::format("{}: rank{} {} did not answer while this rank waited for {}", place_,
                       missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), waits_for_);
  }
  report_(line);
  transport_->leave(1);
}

}  // namespace tapestry
