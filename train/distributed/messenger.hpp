#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/distributed/transport.hpp"

namespace tapestry {

// The messages of a rank that are in flight. Messages are exchanged while a rank waits, on the
// thread that waits, which must be the one that constructed the transport.
class Messenger final {
 public:
  explicit Messenger(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
  // Waits until all messages are complete and all ranks end, unless the transport threw.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  // Begin a message. `done` is called in wait() when it is complete.
  using Done = std::function<void()>;
  void send(int to, int tag, std::span<const std::byte> bytes, Done done);
  void receive(int from, int tag, std::span<std::byte> bytes, Done done);

  // Waits until `ready` returns true. `missing` returns the ranks that have not sent what is
  // expected; null: all ranks may be late.
  void wait(const std::function<bool()>& ready, const std::string& what,
            const std::function<std::vector<int>()>& missing);

  // Implement the functions of Ranks with the same names; at() implements at_step().
  void at(const std::string& place) { place_ = place; }
  void watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report);
  void abort(int status) { transport_->abort(status); }

 private:
  using Clock = std::chrono::steady_clock;

  int begun(Done done);
  bool take_done();
  void leave_the_dead(const std::vector<int>& missing, const std::string& what);

  std::unique_ptr<Transport> transport_;
  std::vector<Done> under_way_;    // messages in flight, indexed by number
  std::vector<int> free_numbers_;  // numbers of completed messages
  std::uint64_t bytes_sent_ = 0;
  bool has_failed_ = false;
  std::optional<Clock::time_point> stopped_since_;
  const std::atomic<bool>* stop_ = nullptr;
  std::function<void(const std::string&)> report_;
  std::string place_ = "before the first step";
};

}  // namespace tapestry
