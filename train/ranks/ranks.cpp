#include "train/ranks/ranks.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "autograd/check.hpp"
#include "train/ranks/launch.hpp"
#include "train/ranks/packed.hpp"

namespace tapestry {
namespace {
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Gathers take turns with so many tags, two each; more are never under way.
constexpr int gathers_at_once = 1024;
static_assert(2 * gathers_at_once <= Ranks::first_free_tag - 1);
constexpr int broadcast_tag = Ranks::first_free_tag - 1;

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

int launched_rank() { return read_launch().rank; }

// The thread that talks to the other ranks. It alone calls the transport.
class Ranks::Messenger {
 public:
  explicit Messenger(OpenTransport* open) : thread_([this, open] { run(open); }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return transport_ != nullptr; });
  }

  ~Messenger() {
    post([this] { stopping_ = true; });
    thread_.join();
  }

  // After its construction, these two do not change.
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    posted_something_.notify_one();
  }

  void wait(const std::function<bool()>& ready, const std::string& what,
            std::function<std::vector<int>()> missing) {
    std::unique_lock lock(mutex_);
    waits_for_ = what;
    missing_ = std::move(missing);
    waiting_ = true;
    posted_something_.notify_one();
    changed_.wait(lock, ready);
    waiting_ = false;
    missing_ = nullptr;
  }

  void watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report) {
    post([this, &stop, report = std::move(report)] {
      stop_ = &stop;
      report_ = report;
    });
  }

  // --- on the thread ---

  void send(int to, int tag, std::span<const std::byte> bytes, Done done) {
    bytes_sent_ += bytes.size();
    transport_->send(begun(std::move(done)), to, tag, bytes.data(), bytes.size());
  }

  void receive(int from, int tag, std::span<std::byte> bytes, Done done) {
    transport_->receive(begun(std::move(done)), from, tag, bytes.data(), bytes.size());
  }

  void abort(int status) { transport_->abort(status); }

  std::atomic<std::uint64_t> bytes_sent_ = 0;

 private:
  int begun(Done done) {
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

  bool nothing_under_way() const { return free_numbers_.size() == under_way_.size(); }

  void run(OpenTransport* open) {
    std::unique_ptr<Transport> transport(open());
    {
      const std::lock_guard lock(mutex_);
      transport_ = transport.get();
    }
    changed_.notify_all();
    while (!stopping_ || !nothing_under_way()) {
      const bool worked = do_posted(), heard = take_done();
      if (worked || heard) {
        const std::lock_guard lock(mutex_);  // or one could miss it that begins to wait
        changed_.notify_all();
        quiet_since_ = Clock::now();
      } else {
        look_for_the_dead();
        rest();
      }
    }
    transport->finish();
  }

  bool do_posted() {
    std::deque<std::function<void()>> works;
    {
      const std::lock_guard lock(mutex_);
      works.swap(posted_);
    }
    for (const std::function<void()>& work : works) work();
    return !works.empty();
  }

  bool take_done() {
    int numbers[64];
    const std::size_t count = transport_->take_done(numbers, std::size(numbers));
    for (std::size_t i = 0; i < count; ++i) {
      const Done done = std::move(under_way_[numbers[i]]);
      free_numbers_.push_back(numbers[i]);
      if (done) done();
    }
    return count > 0;
  }

  // While this process computes, the thread looks now and then, so as to leave it the core; while
  // it waits, all the time, but not for long where others may need the core.
  void rest() {
    std::unique_lock lock(mutex_);
    if (!posted_.empty()) return;
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

  void look_for_the_dead() {
    if (!stop_ || !*stop_) {
      stopped_since_.reset();
      return;
    }
    std::string line;
    {
      const std::lock_guard lock(mutex_);
      if (!waiting_ || !missing_) return stopped_since_.reset();
      if (!stopped_since_) stopped_since_ = Clock::now();
      if (Clock::now() - *stopped_since_ < 300ms) return;
      line =
          fmt::format("no answer from rank{} {}, waited for with {}",
                      missing_().size() == 1 ? "" : "s", fmt::join(missing_(), ", "), waits_for_);
    }
    report_(line);
    std::_Exit(1);
  }

  std::vector<Done> under_way_;    // of messages, by their numbers
  std::vector<int> free_numbers_;  // of those that are done
  bool stopping_ = false, waited_ = false;
  Clock::time_point quiet_since_ = Clock::now();
  std::optional<Clock::time_point> stopped_since_;
  const std::atomic<bool>* stop_ = nullptr;
  std::function<void(const std::string&)> report_;

  std::mutex mutex_;  // of what stands below, but that the thread alone uses transport_
  std::condition_variable changed_, posted_something_;
  std::deque<std::function<void()>> posted_;
  Transport* transport_ = nullptr;
  bool waiting_ = false;
  std::string waits_for_;
  std::function<std::vector<int>()> missing_;
  std::thread thread_;
};

// --- ranks ---

Ranks::Ranks() = default;
Ranks::Ranks(Ranks&&) noexcept = default;
Ranks::~Ranks() = default;

Ranks Ranks::launched() {
  Ranks ranks;
  const Launch launch = read_launch();
  if (launch.size == 1) return ranks;
  ranks.messenger_ = std::make_unique<Messenger>(load_transport(launch));
  ranks.rank_ = ranks.messenger_->rank();
  ranks.size_ = ranks.messenger_->size();
  ranks.hosts_.assign(ranks.size_, "");
  ranks.hosts_ = ranks.gather(host_name(), "the first message");
  return ranks;
}

std::string Ranks::name(int rank) const { return fmt::format("rank {} ({})", rank, hosts_[rank]); }

void Ranks::post(std::function<void()> work) { messenger_->post(std::move(work)); }

void Ranks::send(int to, int tag, std::span<const std::byte> bytes, Done done) {
  messenger_->send(to, tag, bytes, std::move(done));
}

void Ranks::receive(int from, int tag, std::span<std::byte> bytes, Done done) {
  messenger_->receive(from, tag, bytes, std::move(done));
}

void Ranks::wait(const std::function<bool()>& ready, const std::string& what,
                 std::function<std::vector<int>()> missing) {
  messenger_->wait(ready, what, std::move(missing));
}

double Ranks::bytes_sent() const {
  return messenger_ ? static_cast<double>(messenger_->bytes_sent_) : 0;
}

void Ranks::watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report) {
  if (messenger_) messenger_->watch(stop, std::move(report));
}

void Ranks::abort(int status) {
  if (messenger_) {
    post([this, status] { messenger_->abort(status); });
    std::this_thread::sleep_for(5s);
  }
  std::_Exit(status);
}

// All send to rank 0, which passes on what came. A message has two parts: its length, and itself.
class Ranks::Gathering {
 public:
  Gathering(Ranks& ranks, std::string own, std::string name, int tag)
      : what(std::move(name)), ranks_(ranks), tag_(tag), own_(std::move(own)), all_(ranks.size()) {
    if (ranks.rank() == 0) all_[0] = own_;
  }

  // On the messages' thread, as all that follows.
  void begin(std::shared_ptr<Gathering> self) {
    self_ = std::move(self);
    if (ranks_.rank() == 0) {
      left_ = ranks_.size() - 1;
      for (int rank = 1; rank < ranks_.size(); ++rank)
        get(rank, all_[rank], [this] {
          if (--left_ == 0) pass_on();
        });
    } else {
      give(0, own_);
      get(0, packed_, [this] {
        Unpacker packed(packed_);
        for (std::string& one : all_) one = packed.get<std::string>();
        end();
      });
    }
  }

  bool is_done() const { return done_; }
  std::vector<std::string> take() { return std::move(all_); }

  std::vector<int> missing() const {
    if (ranks_.rank() != 0) return {0};
    std::vector<int> ranks;
    for (int rank = 1; rank < ranks_.size(); ++rank)
      if (!heard_[rank]) ranks.push_back(rank);
    return ranks;
  }

  const std::string what;

 private:
  void give(int to, const std::string& text) {
    const auto size = std::make_shared<std::uint64_t>(text.size());
    ranks_.send(to, tag_, std::as_bytes(std::span(size.get(), 1)), [size] {});
    if (!text.empty()) ranks_.send(to, tag_ + 1, bytes_of(text), [self = self_] {});
  }

  void get(int from, std::string& text, Done done) {
    const auto size = std::make_shared<std::uint64_t>();
    ranks_.receive(from, tag_, std::as_writable_bytes(std::span(size.get(), 1)),
                   [this, size, from, &text, done = std::move(done)] {
                     heard_[from] = true;
                     text.resize(*size);
                     if (text.empty()) return done();
                     ranks_.receive(from, tag_ + 1, std::as_writable_bytes(std::span(text)), done);
                   });
  }

  void pass_on() {
    Packer packer;
    for (const std::string& one : all_) packer.put(one);
    packed_ = packer.take();
    for (int rank = 1; rank < ranks_.size(); ++rank) give(rank, packed_);
    end();
  }

  void end() {
    done_ = true;
    self_.reset();
  }

  Ranks& ranks_;
  int tag_;
  std::string own_;
  std::vector<std::string> all_;
  std::vector<char> heard_ = std::vector<char>(all_.size(), false);
  std::string packed_;
  int left_ = 0;
  std::atomic<bool> done_ = false;
  std::shared_ptr<Gathering> self_;  // until it is done
};

std::shared_ptr<Ranks::Gathering> Ranks::begin_gather(std::string own, const std::string& what) {
  const int tag = 2 * (gathered_++ % gathers_at_once);
  auto gathering = std::make_shared<Gathering>(*this, std::move(own), what, tag);
  if (!alone()) post([gathering] { gathering->begin(gathering); });
  return gathering;
}

std::vector<std::string> Ranks::end_gather(const std::shared_ptr<Gathering>& gathering) {
  if (!alone())
    wait([&] { return gathering->is_done(); }, gathering->what,
         [gathering] { return gathering->missing(); });
  return gathering->take();
}

std::vector<std::string> Ranks::gather(std::string own, const std::string& what) {
  return end_gather(begin_gather(std::move(own), what));
}

void Ranks::broadcast(std::span<std::byte> bytes, const std::string& what) {
  if (alone()) return;
  constexpr std::size_t most = std::size_t{64} << 20;
  std::atomic<std::size_t> left = 0;
  for (std::size_t at = 0; at < bytes.size(); at += most) left += rank_ == 0 ? size_ - 1 : 1;
  post([&] {
    for (std::size_t at = 0; at < bytes.size(); at += most) {
      const auto part = bytes.subspan(at, std::min(most, bytes.size() - at));
      if (rank_ != 0) receive(0, broadcast_tag, part, [&] { --left; });
      for (int to = 1; rank_ == 0 && to < size_; ++to)
        send(to, broadcast_tag, part, [&] { --left; });
    }
  });
  wait([&] { return left == 0; }, what, [this] { return std::vector<int>{rank_ == 0 ? 1 : 0}; });
}

void Ranks::agree(const std::string& what, const std::function<void()>& work) {
  if (alone()) return work();
  enum Kind : char { fine, input, failure };
  Packer own;
  try {
    work();
    own.put(fine);
  } catch (const InputError& error) {
    own.put(input);
    own.put(std::string(error.what()));
  } catch (const std::exception& error) {
    own.put(failure);
    own.put(std::string(error.what()));
  }
  const std::vector<std::string> all = gather(own.take(), what);
  for (int rank = 0; rank < size_; ++rank) {
    Unpacker one(all[rank]);
    const Kind kind = one.get<Kind>();
    if (kind == fine) continue;
    agreed_ = true;
    const std::string message = (rank == 0 ? "" : name(rank) + ": ") + one.get<std::string>();
    if (kind == input) throw InputError(message);
    throw std::runtime_error(message);
  }
}

}  // namespace tapestry
