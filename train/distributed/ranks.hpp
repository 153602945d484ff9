#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/distributed/packed.hpp"

namespace tapestry {

class Messenger;
class Transport;

// Returns the rank of this process from the environment variables of mpirun or srun; 0 without
// these.
int launched_rank();

// The processes that train together: those started by mpirun or srun, or one alone. All functions
// must be called on the thread that constructed the ranks; those marked as collective by all ranks
// in the same order. With one process they wait for nothing: no byte is packed, and nothing is
// copied.
class Ranks final {
 public:
  Ranks();  // constructs the ranks of a single process

  // Returns the ranks that were launched together, or this process alone. May be called once per
  // process. Throws InputError if the plug-in for the MPI implementation is missing or cannot be
  // loaded.
  static Ranks launched();

  // Returns ranks that a transport connects, after all ranks were heard from.
  static Ranks over(std::unique_ptr<Transport> transport);

  // Returns one of several ranks of which the others do not exist, for a dry run: an Exchange does
  // nothing, and a gather returns its own value for all ranks. Throws std::invalid_argument unless
  // 0 <= rank < size.
  static Ranks imagined(int rank, int size);

  Ranks(Ranks&&) noexcept;
  ~Ranks();  // collective: waits for the other ranks

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  // Returns false if the other ranks do not exist: after imagined() with several ranks.
  bool are_there() const { return alone() || messenger_; }
  std::string name(int rank) const;  // returns "rank 2 (host)"
  std::string host(int rank) const { return hosts_[rank]; }

  enum class Late { missing, fine };
  // Returns the values of all ranks, by rank. Collective; the values must be packable (packed.hpp).
  // `what` names them in messages. Late::fine: ranks may arrive late, because their work differs in
  // length; otherwise a rank that does not answer after the training was told to stop is considered
  // dead.
  template <class T>
  std::vector<T> gather(T own, std::string_view what, Late late = Late::missing) {
    return end_gather(begin_gather(std::move(own), what), late);
  }

  // Gather in two steps, of which the first does not wait: messages arrive while others are
  // awaited.
  template <class T>
  class Gathering;
  template <class T>
  Gathering<T> begin_gather(T own, std::string_view what);
  template <class T>
  std::vector<T> end_gather(Gathering<T> gathering, Late late = Late::missing);

  // Replaces the bytes by those of rank 0, which must have the same number on all ranks.
  // Collective.
  void broadcast(std::span<std::byte> bytes, std::string_view what) {
    if (!alone()) broadcast_to_all(bytes, what);
  }

  // Calls `work` on all ranks. If it throws on some ranks, the exception of the first of them is
  // thrown on all: an InputError or a std::runtime_error, which names the rank unless it is 0. One
  // process throws its own exception. Collective.
  template <class Work>
  void agree(std::string_view what, Work&& work) {
    if (alone())
      work();
    else
      agree_with_all(what, work);
  }

  // Returns whether all ranks know the current exception: agree() threw it, or all ranks found it
  // and called found_by_all().
  bool is_agreed() const { return agreed_; }
  void found_by_all() { agreed_ = true; }

  // Ends all processes within seconds, this one with `status`, because of an error of this one.
  [[noreturn]] void abort(int status);

  // Sets the step that the line of watch() shows.
  void at_step(std::int64_t step) {
    if (messenger_) tell_step(step);
  }

  // Handles a rank that died. If `stop` is set and expected messages do not arrive, as when mpirun
  // ends all processes because one has died, passes a line with the missing ranks to `report` and
  // ends this process with status 1. `stop` must outlive the ranks.
  void watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report);

  double bytes_sent() const;  // returns the number of bytes that this rank has sent

 private:
  friend class Exchange;
  struct Messages;  // the messages of one gather
  std::shared_ptr<Messages> begin_messages(std::string own, std::string_view what);
  std::vector<std::string> end_messages(const std::shared_ptr<Messages>& messages, Late late);
  void broadcast_to_all(std::span<std::byte> bytes, std::string_view what);
  void agree_with_all(std::string_view what, const std::function<void()>& work);
  void tell_step(std::int64_t step);
  void wait_for(const std::vector<int>& left, const std::string& what, Late late);

  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_{""};
  bool agreed_ = false;
  int gathered_ = 0;                      // number of gathers
  std::unique_ptr<Messenger> messenger_;  // null with one process
};

// Messages between ranks that are awaited together. A rank must receive the messages of another in
// the order in which the other sends them, and exchange one set of messages at a time.
class Exchange final {
 public:
  explicit Exchange(Ranks& ranks) : ranks_(ranks), left_(ranks.size(), 0) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Begin a message of at most 1 GiB. Until wait() returns, `bytes` must remain valid.
  void send(int to, std::span<const std::byte> bytes);
  void receive(int from, std::span<std::byte> bytes);
  void wait(const std::string& what);  // until all messages are complete; `what` names them

 private:
  Ranks& ranks_;
  std::vector<int> left_;  // number of incomplete messages by the other rank
};

// A gather whose messages are in flight.
template <class T>
class Ranks::Gathering final {
  friend class Ranks;
  T own_{};  // value, with one process
  std::shared_ptr<Messages> messages_{};
};

template <class T>
Ranks::Gathering<T> Ranks::begin_gather(T own, std::string_view what) {
  Gathering<T> gathering;
  if (alone()) {
    gathering.own_ = std::move(own);
  } else {
    Packer packer;
    packer.put(own);
    gathering.messages_ = begin_messages(packer.take(), what);
  }
  return gathering;
}

template <class T>
std::vector<T> Ranks::end_gather(Gathering<T> gathering, Late late) {
  std::vector<T> all;
  if (alone()) {
    all.push_back(std::move(gathering.own_));
  } else {
    for (const std::string& bytes : end_messages(gathering.messages_, late))
      all.push_back(Unpacker(bytes).get<T>());
  }
  return all;
}

}  // namespace tapestry
