#include "train/distributed/messenger.hpp"

#include <fmt/ranges.h>

#include <thread>
#include <utility>

namespace tapestry {

using namespace std::chrono_literals;

Messenger::~Messenger() {
  if (has_failed_) return;
  try {
    wait([this] { return free_numbers_.size() == under_way_.size(); }, "the end", nullptr);
    transport_->finish();
  } catch (...) {  // the other ranks are gone
  }
}

void Messenger::watch(const std::atomic<bool>& stop,
                      std::function<void(const std::string&)> report) {
  stop_ = &stop;
  report_ = std::move(report);
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

// Polls without a pause for 2 ms after each message, and then every 50 µs, because other processes
// may need the core.
void Messenger::wait(const std::function<bool()>& ready, const std::string& what,
                     const std::function<std::vector<int>()>& missing) {
  try {
    stopped_since_.reset();
    for (auto quiet_since = Clock::now(); !ready();) {
      if (take_done()) {
        quiet_since = Clock::now();
        continue;
      }
      if (missing && stop_ && *stop_) leave_the_dead(missing(), what);
      if (Clock::now() - quiet_since < 2ms)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(50us);
    }
  } catch (...) {
    has_failed_ = true;
    throw;
  }
}

bool Messenger::take_done() {
  int numbers[64];
  const std::size_t count = transport_->take_done(numbers, std::size(numbers));
  for (std::size_t i = 0; i < count; ++i) {
    const Done done = std::move(under_way_[numbers[i]]);
    free_numbers_.push_back(numbers[i]);
    done();
  }
  return count > 0;
}

// Ends this process if ranks are missing for long after all were told to stop.
void Messenger::leave_the_dead(const std::vector<int>& missing, const std::string& what) {
  if (!stopped_since_) stopped_since_ = Clock::now();
  // Rank 0 may be slow and wait for the dead one itself. mpirun kills all after a second.
  const auto patience = missing == std::vector{0} ? 600ms : 300ms;
  if (Clock::now() - *stopped_since_ < patience) return;
  report_(fmt::format("{}: rank{} {} did not answer while this rank waited for {}", place_,
                      missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), what));
  transport_->leave(1);
}

}  // namespace tapestry
