#include "train/distributed/ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "autograd/check.hpp"
#include "train/distributed/launch.hpp"
#include "train/distributed/messenger.hpp"

namespace tapestry {
namespace {

// Number of gathers that may be in flight; each has two tags.
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

// The result of one rank's call in agree().
struct Outcome {
  enum Kind : char { done, wrong_input, failed };
  Kind kind = done;
  std::string message{};
  static void fields(auto& visit, auto& self) { visit(self.kind, self.message); }
};

}  // namespace

int launched_rank() { return read_launch().rank; }

Ranks::Ranks() = default;
Ranks::Ranks(Ranks&&) noexcept = default;
Ranks::~Ranks() = default;

Ranks Ranks::launched() {
  const Launch launch = read_launch();
  return launch.size == 1 ? Ranks() : over(load_transport(launch));
}

Ranks Ranks::over(std::function<Transport*()> open) {
  Ranks ranks;
  ranks.messenger_ = std::make_unique<Messenger>(std::move(open));
  ranks.rank_ = ranks.messenger_->rank();
  ranks.size_ = ranks.messenger_->size();
  ranks.hosts_.assign(ranks.size_, "");
  ranks.hosts_ = ranks.gather(host_name(), "the first message");
  return ranks;
}

Ranks Ranks::imagined(int rank, int size) {
  require(0 <= rank && rank < size,
          "Ranks: rank {} of {}; expected 0 or more and below the number of ranks", rank, size);
  Ranks ranks;
  ranks.rank_ = rank;
  ranks.size_ = size;
  ranks.hosts_.assign(size, "imagined");
  return ranks;
}

std::string Ranks::name(int rank) const { return fmt::format("rank {} ({})", rank, hosts_[rank]); }

void Ranks::post(std::function<void()> work) {
  if (!are_there()) return work();
  messenger_->post(std::move(work));
}

void Ranks::send(int to, int tag, std::span<const std::byte> bytes, Done done) {
  if (!are_there()) return done();
  messenger_->send(to, tag, bytes, std::move(done));
}

void Ranks::receive(int from, int tag, std::span<std::byte> bytes, Done done) {
  if (!are_there()) return done();
  messenger_->receive(from, tag, bytes, std::move(done));
}

void Ranks::wait(const std::function<bool()>& ready, const std::string& what,
                 std::function<std::vector<int>()> missing) {
  if (are_there()) messenger_->wait(ready, what, std::move(missing));
}

double Ranks::bytes_sent() const {
  return messenger_ ? static_cast<double>(messenger_->bytes_sent()) : 0;
}

void Ranks::watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report) {
  if (messenger_) messenger_->watch(stop, std::move(report));
}

void Ranks::tell_step(std::int64_t step) { messenger_->at(fmt::format("step {}", step)); }

void Ranks::abort(int status) {
  if (messenger_) {
    messenger_->abort(status);
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  std::_Exit(status);
}

// The messages of one gather: all ranks send to rank 0, which sends all values to all ranks. A
// message has two parts: its length, and its bytes.
class Ranks::Messages final {
 public:
  Messages(Ranks& ranks, std::string own, std::string_view name, int tag)
      : what(name), ranks_(ranks), tag_(tag), own_(std::move(own)), all_(ranks.size()) {
    if (ranks.rank() == 0) all_[0] = own_;
    if (!ranks.are_there()) std::ranges::fill(all_, own_);
  }

  // Runs on the messages' thread, as do missing() and the private functions.
  void begin(std::shared_ptr<Messages> self) {
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
    const Done all = [this, from, done = std::move(done)] {
      heard_[from] = true;
      done();
    };
    ranks_.receive(from, tag_, std::as_writable_bytes(std::span(size.get(), 1)),
                   [this, size, from, &text, all] {
                     text.resize(*size);
                     if (text.empty()) return all();
                     ranks_.receive(from, tag_ + 1, std::as_writable_bytes(std::span(text)), all);
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
  std::shared_ptr<Messages> self_;  // set while the gather is in flight
};

std::shared_ptr<Ranks::Messages> Ranks::begin_messages(std::string own, std::string_view what) {
  const int tag = 2 * (gathered_++ % gathers_at_once);
  auto messages = std::make_shared<Messages>(*this, std::move(own), what, tag);
  if (messenger_) post([messages] { messages->begin(messages); });
  return messages;
}

std::vector<std::string> Ranks::end_messages(const std::shared_ptr<Messages>& messages, Late late) {
  std::function<std::vector<int>()> missing;
  if (late == Late::missing) missing = [messages] { return messages->missing(); };
  if (messenger_) wait([&] { return messages->is_done(); }, messages->what, std::move(missing));
  return messages->take();
}

void Ranks::broadcast_to_all(std::span<std::byte> bytes, std::string_view what) {
  constexpr std::size_t most = std::size_t{64} << 20;
  // The number of parts that still have to come from a rank, or to go to it.
  std::vector<std::atomic<std::size_t>> left(size_);
  for (int rank = 0; rank < size_; ++rank)
    if ((rank == 0) != (rank_ == 0)) left[rank] = (bytes.size() + most - 1) / most;
  post([&] {
    for (std::size_t at = 0; at < bytes.size(); at += most) {
      const auto part = bytes.subspan(at, std::min(most, bytes.size() - at));
      if (rank_ != 0) receive(0, broadcast_tag, part, [&] { --left[0]; });
      for (int to = 1; rank_ == 0 && to < size_; ++to)
        send(to, broadcast_tag, part, [&left, to] { --left[to]; });
    }
  });
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int rank = 0; rank < size_; ++rank)
      if (left[rank] > 0) ranks.push_back(rank);
    return ranks;
  };
  wait([&] { return missing().empty(); }, std::string(what), missing);
}

void Ranks::agree_with_all(std::string_view what, const std::function<void()>& work) {
  Outcome own;
  try {
    work();
  } catch (const InputError& error) {
    own = {Outcome::wrong_input, error.what()};
  } catch (const std::exception& error) {
    own = {Outcome::failed, error.what()};
  }
  const std::vector<Outcome> all = gather(std::move(own), what, Late::fine);
  for (int rank = 0; rank < size_; ++rank) {
    if (all[rank].kind == Outcome::done) continue;
    agreed_ = true;
    const std::string message = (rank == 0 ? "" : name(rank) + ": ") + all[rank].message;
    if (all[rank].kind == Outcome::wrong_input) throw InputError(message);
    throw std::runtime_error(message);
  }
}

}  // namespace tapestry
