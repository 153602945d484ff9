#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tapestry {

class Messenger;

// The number that mpirun or srun gave this process, as its environment says; 0 where none did.
int launched_rank();

// The processes that train together: those that mpirun started, or one that is alone. A thread of
// its own talks to the others, so that messages travel while this process computes. What is said to
// be called by all is called by all in the same order.
class Ranks final {
 public:
  Ranks();  // this process alone

  // Those that were launched together, this process alone where none were. Once in a process.
  // InputError where the plug-in for their MPI is missing.
  static Ranks launched();

  // One of so many that are not there, for a Rehearsal: what it sends goes nowhere, what it waits
  // for is there at once, with no bytes, and in a gather all say what it says.
  static Ranks imagined(int rank, int size);

  Ranks(Ranks&&) noexcept;
  ~Ranks();  // by all: waits for them

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  bool are_there() const { return alone() || messenger_; }
  std::string name(int rank) const;  // "rank 2 (host)"
  std::string host(int rank) const { return hosts_[rank]; }

  // By all: what each rank gave, by rank. `what` names it for whoever looks on.
  // Ranks whose work differs in length are `fine` when they come late; else, once the training was
  // told to stop, who does not answer is taken for dead.
  enum class Late { missing, fine };
  std::vector<std::string> gather(std::string own, const std::string& what,
                                  Late late = Late::missing);

  // The same in two steps, the first of which does not wait.
  class Gathering;
  std::shared_ptr<Gathering> begin_gather(std::string own, const std::string& what);
  std::vector<std::string> end_gather(const std::shared_ptr<Gathering>& gathering,
                                      Late late = Late::missing);

  // By all: from rank 0, in place.
  void broadcast(std::span<std::byte> bytes, const std::string& what);

  // By all: does the work. Where it throws on some rank, the exception of the first of these is
  // thrown on all: an InputError, or a std::runtime_error; it names the rank if that is not 0.
  void agree(const std::string& what, const std::function<void()>& work);

  // Whether the exception that is under way is known to all ranks: agree() threw it, or all found
  // the same, and said so by found_by_all().
  bool is_agreed() const { return agreed_; }
  void found_by_all() { agreed_ = true; }

  // Ends all processes at once, for what happened to this one.
  [[noreturn]] void abort(int status);

  // Where this rank is, for such a line: "step 12".
  void at(const std::string& place);

  // When `stop` is set and what is waited for does not come, as when mpirun ends the others because
  // one of them died, `report` gets a line that says of whom, and this process ends.
  void watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report);

  // --- for those who exchange more than this: send and receive on the messages' thread alone ---

  using Done = std::function<void()>;
  void post(std::function<void()> work);  // to the messages' thread
  void send(int to, int tag, std::span<const std::byte> bytes, Done done);
  void receive(int from, int tag, std::span<std::byte> bytes, Done done);

  // Until `ready`, which becomes true on the messages' thread. `missing` says there, when asked,
  // who did not give what is waited for.
  void wait(const std::function<bool()>& ready, const std::string& what,
            std::function<std::vector<int>()> missing);

  static constexpr int first_free_tag = 4096;

  double bytes_sent() const;  // by this rank so far

 private:
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_{""};
  bool agreed_ = false;
  int gathered_ = 0;                      // how often
  std::unique_ptr<Messenger> messenger_;  // null: alone
};

}  // namespace tapestry
