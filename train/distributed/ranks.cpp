#include "train/distributed/ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "autograd/check.hpp"
#include "train/distributed/launch.hpp"
#include "train/distributed/messenger.hpp"

namespace tapestry {
namespace {

constexpr int gathers_at_once = 1024;  // tags of gathers, from 0 on
constexpr int exchange_tag = gathers_at_once;

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
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
  if (launch.size == 1) return {};
  return over(std::unique_ptr<Transport>(load_transport(launch)()));
}

Ranks Ranks::over(std::unique_ptr<Transport> transport) {
  Ranks ranks;
  ranks.messenger_ = std::make_unique<Messenger>(std::move(transport));
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

double Ranks::bytes_sent() const {
  return messenger_ ? static_cast<double>(messenger_->bytes_sent()) : 0;
}

void Ranks::watch(const std::atomic<bool>& stop, std::function<void(const std::string&)> report) {
  if (messenger_) messenger_->watch(stop, std::move(report));
}

void Ranks::tell_step(std::int64_t step) { messenger_->at(fmt::format("step {}", step)); }

void Ranks::abort(int status) {
  if (messenger_) messenger_->abort(status);
  std::_Exit(status);
}

// Waits until no message is left. `left` has their numbers by rank.
void Ranks::wait_for(const std::vector<int>& left, const std::string& what, Late late) {
  const auto missing = [&left] {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < left.size(); ++rank)
      if (left[rank] > 0) ranks.push_back(static_cast<int>(rank));
    return ranks;
  };
  if (are_there())
    messenger_->wait([&] { return std::ranges::count(left, 0) == std::ssize(left); }, what,
                     late == Late::fine ? nullptr : std::function(missing));
}

// Each rank sends the length of its value and then its bytes to all others.
struct Ranks::Messages : std::enable_shared_from_this<Messages> {
  Messages(const Ranks& ranks, std::string own, std::string_view name)
      : what(name), values(ranks.size()), sizes(ranks.size()), left(ranks.size(), 0) {
    if (!ranks.are_there()) std::ranges::fill(values, own);
    sizes[ranks.rank()] = own.size();
    values[ranks.rank()] = std::move(own);
  }

  void begin(Ranks& ranks, int tag) {
    Messenger& messenger = *ranks.messenger_;
    for (int other = 0; other < ranks.size(); ++other) {
      if (other == ranks.rank()) continue;
      left[other] = 4;
      // Keeps this object alive, even if an exception of all ranks has ended the gather.
      const auto done = [self = shared_from_this(), other] { --self->left[other]; };
      const auto length = [this](int rank) { return std::span(&sizes[rank], 1); };
      messenger.send(other, tag, std::as_bytes(length(ranks.rank())), done);
      messenger.send(other, tag, std::as_bytes(std::span(values[ranks.rank()])), done);
      messenger.receive(other, tag, std::as_writable_bytes(length(other)), [=, this, &messenger] {
        done();
        values[other].resize(sizes[other]);
        messenger.receive(other, tag, std::as_writable_bytes(std::span(values[other])), done);
      });
    }
  }

  const std::string what;
  std::vector<std::string> values;   // by rank, as are the others
  std::vector<std::uint64_t> sizes;  // of the values
  std::vector<int> left;             // numbers of incomplete messages
};

std::shared_ptr<Ranks::Messages> Ranks::begin_messages(std::string own, std::string_view what) {
  auto messages = std::make_shared<Messages>(*this, std::move(own), what);
  if (messenger_) messages->begin(*this, gathered_++ % gathers_at_once);
  return messages;
}

std::vector<std::string> Ranks::end_messages(const std::shared_ptr<Messages>& messages, Late late) {
  wait_for(messages->left, messages->what, late);
  return std::move(messages->values);
}

void Exchange::send(int to, std::span<const std::byte> bytes) {
  if (!ranks_.are_there()) return;
  ++left_[to];
  ranks_.messenger_->send(to, exchange_tag, bytes, [this, to] { --left_[to]; });
}

void Exchange::receive(int from, std::span<std::byte> bytes) {
  if (!ranks_.are_there()) return;
  ++left_[from];
  ranks_.messenger_->receive(from, exchange_tag, bytes, [this, from] { --left_[from]; });
}

void Exchange::wait(const std::string& what) { ranks_.wait_for(left_, what, Ranks::Late::missing); }

void Ranks::broadcast_to_all(std::span<std::byte> bytes, std::string_view what) {
  constexpr std::size_t most = std::size_t{64} << 20;
  Exchange exchange(*this);
  for (std::size_t at = 0; at < bytes.size(); at += most) {
    const auto part = bytes.subspan(at, std::min(most, bytes.size() - at));
    if (rank_ != 0) exchange.receive(0, part);
    for (int to = 1; rank_ == 0 && to < size_; ++to) exchange.send(to, part);
  }
  exchange.wait(std::string(what));
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
