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

// The processes that train together: those started by mpirun or srun, or one alone. A separate
// thread communicates with the others, so that messages are exchanged while this process computes.
// Functions marked as collective must be called by all ranks in the same order. With one process
// they wait for nothing: no byte is packed, and nothing is copied.
class Ranks final {
 public:
  Ranks();  // constructs the ranks of a single process

  // Returns the ranks that were launched together, or this process alone. May be called once per
  // process. Throws InputError if the plug-in for the MPI implementation is missing or cannot be
  // loaded.
  static Ranks launched();

  // Returns ranks that a transport connects, after all ranks were heard from. `open` is called on
  // the messages' thread; what it throws is thrown here.
  static Ranks over(std::function<Transport*()> open);

  // Returns one of several ranks of which the others do not exist, for a dry run: sends are
  // discarded, receives complete at once without bytes, and a gather returns its own value for all
  // ranks. Throws std::invalid_argument unless 0 <= rank < size.
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

  // Gather in two steps, of which the first does not wait.
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

  // --- individual messages: call send and receive only on the messages' thread ---

  using Done = std::function<void()>;
  void post(std::function<void()> work);  // runs work on the messages' thread
  void send(int to, int tag, std::span<const std::byte> bytes, Done done);
  void receive(int from, int tag, std::span<std::byte> bytes, Done done);

  // Waits until `ready`, which is called on this thread whenever messages are complete, returns
  // true. `missing` is called on the messages' thread and returns the ranks that have not sent what
  // is expected; null: all ranks may be late. Throws the exception of a function that failed on the
  // messages' thread.
  void wait(const std::function<bool()>& ready, const std::string& what,
            std::function<std::vector<int>()> missing);

  static constexpr int first_free_tag = 4096;  // smallest tag for send() and receive()

  double bytes_sent() const;  // returns the number of bytes that this rank has sent

 private:
  class Messages;  // the messages of one gather
  std::shared_ptr<Messages> begin_messages(std::string own, std::string_view what);
  std::vector<std::string> end_messages(const std::shared_ptr<Messages>& messages, Late late);
  void broadcast_to_all(std::span<std::byte> bytes, std::string_view what);
  void agree_with_all(std::string_view what, const std::function<void()>& work);
  void tell_step(std::int64_t step);

  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_{""};
  bool agreed_ = false;
  int gathered_ = 0;                      // number of gathers
  std::unique_ptr<Messenger> messenger_;  // null with one process
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
