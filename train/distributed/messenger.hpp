#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "train/distributed/transport.hpp"

namespace tapestry {

// The thread that communicates with the other ranks. Only this thread calls the transport, except
// for rank() and size(); functions marked as running on the thread are called from posted work and
// from completion callbacks. If posted work or a callback throws, nothing more is sent, and wait()
// throws the exception.
class Messenger final {
 public:
  explicit Messenger(std::function<Transport*()> open);  // throws what `open` throws
  // Waits until all messages are complete and all ranks end, unless the thread failed.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  // Implement the functions of Ranks with the same names; at() implements at_step().
  void post(std::function<void()> work);
  void wait(const std::function<bool()>& ready, const std::string& what,
            std::function<std::vector<int>()> missing);
  void at(const std::string& place);
  void watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report);
  void abort(int status);  // ends all processes soon

  // --- on the thread ---

  using Done = std::function<void()>;
  void send(int to, int tag, std::span<const std::byte> bytes, Done done);
  void receive(int from, int tag, std::span<std::byte> bytes, Done done);

 private:
  using Clock = std::chrono::steady_clock;

  void run(const std::function<Transport*()>& open);
  void exchange_messages();
  bool do_posted();
  bool take_done();
  void rest();
  void look_for_the_dead();
  int begun(Done done);
  bool nothing_under_way() const { return free_numbers_.size() == under_way_.size(); }
  bool is_finished();

  // The members down to report_ are used only by the thread.
  std::vector<Done> under_way_;    // messages in flight, indexed by number
  std::vector<int> free_numbers_;  // numbers of completed messages
  bool waited_ = false;
  Clock::time_point quiet_since_ = Clock::now();
  std::optional<Clock::time_point> stopped_since_;
  const std::atomic<bool>* stop_ = nullptr;
  std::function<void(const std::string&)> report_;

  std::atomic<std::uint64_t> bytes_sent_ = 0;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_, posted_something_;
  std::deque<std::function<void()>> posted_;
  Transport* transport_ = nullptr;  // set once, before the constructor returns
  bool waiting_ = false, stopping_ = false;
  std::optional<int> abort_status_;
  std::exception_ptr failure_;
  std::string place_ = "before the first step", waits_for_;
  std::function<std::vector<int>()> missing_;
  std::thread thread_;
};

}  // namespace tapestry
