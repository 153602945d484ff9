#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "autograd/ops.hpp"
#include "layers/mlp.hpp"
#include "optim/adam.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/distributed/gradient_sum.hpp"
#include "train/distributed/sharding.hpp"
#include "train/distributed/transport.hpp"

// Simulates ranks as threads of this process. A seed decides how messages are delayed and
// reordered, and one rank may die.
namespace tapestry {
namespace {

struct Died {};  // ends a rank as a signal ends a process
struct Left {};  // ends a rank that leaves

std::uint64_t mixed(std::uint64_t x) {  // SplitMix64 (Steele et al. 2014)
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A number of ranks, and how their messages are delivered.
struct Schedule {
  std::uint64_t seed = 0;
  int ranks = 2;
  int victim = -1;           // the rank that dies; -1: none
  std::int64_t dies_at = 0;  // number of its messages before it dies

  std::int64_t micro_batches() const { return ranks + static_cast<std::int64_t>(seed % 7); }
  bool sharded() const { return seed % 2 == 1; }
};

// Delivers messages. Like a launcher, tells all ranks to stop when one has died, and ends the
// others when no rank that calls watch() works any more, or, as a fault, after a minute.
class Network {
 public:
  explicit Network(const Schedule& schedule) : schedule_(schedule), ranks_(schedule.ranks) {}

  const Schedule& schedule() const { return schedule_; }
  const std::atomic<bool>& stop() const { return stop_; }
  std::int64_t messages_of(int rank) const { return ranks_[rank].begun; }

  struct Message {
    int number, from, to;
    std::byte* bytes;
    std::size_t size;
    int delay;  // so often its receiver looks before it arrives
    std::vector<std::byte> copy =
        {};  // of a message that is sent at once; others are read when they arrive
    bool was_copied = false;
  };

  void begin(bool sends, int tag, Message message) {
    const std::lock_guard lock(mutex_);
    const int rank = sends ? message.from : message.to;
    expect_alive(rank);
    if (ranks_[rank].begun++ == schedule_.dies_at && rank == schedule_.victim) die(rank);
    Queues& queues = queues_[{message.from, message.to, tag}];
    const std::uint64_t draw = mixed(schedule_.seed ^ mixed(message.from * 64 + message.to) ^
                                     mixed(tag * 100'000 + 2 * queues.begun++ + sends));
    message.delay = static_cast<int>(draw % 4 == 0 ? draw / 4 % 20 : draw / 4 % 3);
    if (sends && draw / 1024 % 2 == 0) {
      message.copy.assign(message.bytes, message.bytes + message.size);
      message.was_copied = true;
      ranks_[rank].done.push_back(message.number);
    }
    (sends ? queues.sent : queues.awaited).push_back(std::move(message));
  }

  // Delivers the messages that have arrived for the rank, and returns one of its complete messages,
  // or -1.
  int take_done(int rank) {
    const std::lock_guard lock(mutex_);
    expect_alive(rank);
    for (auto& [key, queues] : queues_)
      while (std::get<1>(key) == rank && !queues.sent.empty() && !queues.awaited.empty() &&
             --queues.sent.front().delay < 0) {
        deliver(queues.sent.front(), queues.awaited.front());
        queues.sent.pop_front();
        queues.awaited.pop_front();
      }
    std::vector<int>& done = ranks_[rank].done;
    if (done.empty()) return -1;
    std::swap(done.back(), done[mixed(schedule_.seed + ranks_[rank].taken++) % done.size()]);
    const int number = done.back();
    done.pop_back();
    return number;
  }

  void finish(int rank) {
    std::unique_lock lock(mutex_);
    ++finished_;
    while (finished_ < schedule_.ranks) {
      expect_alive(rank);
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      lock.lock();
    }
  }

  // Handles the end of a rank, whose memory is freed.
  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    forget(rank);
  }

  // The rank detects dead ranks from now on.
  void begin_work(int rank) {
    const std::lock_guard lock(mutex_);
    expect_alive(rank);
    ranks_[rank].works = true;
  }

  // The rank has computed its result, or ended without one.
  void end_work(int rank) {
    const std::lock_guard lock(mutex_);
    ranks_[rank].works = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Queues {
    std::deque<Message> sent, awaited;
    std::int64_t begun = 0;
  };
  struct Rank {
    std::int64_t begun = 0, taken = 0;
    std::vector<int> done;
    bool has_died = false, works = false;
  };

  void deliver(const Message& sent, const Message& awaited) {
    if (sent.size != awaited.size) throw std::logic_error("a message of another size");
    std::copy_n(sent.was_copied ? sent.copy.data() : sent.bytes, sent.size, awaited.bytes);
    if (!sent.was_copied) ranks_[sent.from].done.push_back(sent.number);
    ranks_[awaited.to].done.push_back(awaited.number);
  }

  // Removes the messages that the rank's memory holds, and those behind them, which must not
  // overtake them.
  void forget(int rank) {
    for (auto& [key, queues] : queues_) {
      if (std::get<0>(key) == rank)
        queues.sent.erase(std::ranges::find(queues.sent, false, &Message::was_copied),
                          queues.sent.end());
      std::erase_if(queues.awaited, [&](const Message& m) { return m.to == rank; });
    }
  }

  [[noreturn]] void die(int rank) {
    ranks_[rank].has_died = true;
    forget(rank);
    died_at_ = Clock::now();
    stop_ = true;
    throw Died();
  }

  void expect_alive(int rank) {
    if (ranks_[rank].has_died) throw Died();
    if (stop_ && (std::ranges::none_of(ranks_, &Rank::works) ||
                  Clock::now() - died_at_ > std::chrono::minutes(1))) {  // SIGKILL after SIGTERM
      ranks_[rank].has_died = true;
      forget(rank);
      throw Died();
    }
  }

  Schedule schedule_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Queues> queues_;  // by from, to and tag
  std::vector<Rank> ranks_;
  int finished_ = 0;
  std::atomic<bool> stop_ = false;
  Clock::time_point died_at_;
};

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(Network& network, int rank) : network_(network), rank_(rank) {}
  ~SimulatedTransport() override { network_.leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return network_.schedule().ranks; }
  void send(int number, int to, int tag, const void* bytes, std::size_t size) override {
    auto* memory = const_cast<std::byte*>(static_cast<const std::byte*>(bytes));
    network_.begin(true, tag, {number, rank_, to, memory, size, 0});
  }
  void receive(int number, int from, int tag, void* bytes, std::size_t size) override {
    network_.begin(false, tag, {number, from, rank_, static_cast<std::byte*>(bytes), size, 0});
  }
  std::size_t take_done(int* numbers, std::size_t /*room*/) override {
    *numbers = network_.take_done(rank_);
    return *numbers < 0 ? 0 : 1;
  }
  void finish() override { network_.finish(rank_); }
  [[noreturn]] void abort(int /*status*/) override { throw Died(); }
  [[noreturn]] void leave(int /*status*/) override {
    network_.leave(rank_);
    throw Left();
  }

 private:
  Network& network_;
  int rank_;
};

// Trains two steps with all kinds of messages; returns the results, which must not depend on the
// ranks.
std::vector<Array> train(Ranks& ranks, const Schedule& schedule) {
  Random random(3, Stream::init);
  Mlp model({7, 10, 2}, random);
  Parameter large(normal({100, 700}, 1, f32), Role::weight);  // five fragments
  std::vector<Parameter*> parameters = model.parameters();
  parameters.push_back(&large);
  const Array x = normal({12, 7}, 2, f32), y = normal({12, 2}, 3, f32);
  std::vector<std::byte> word(5, std::byte{static_cast<unsigned char>(ranks.rank() + 1)});
  ranks.broadcast(word, "a word");

  GradientSum sum(ranks, parameters,
                  {.micro_batches = schedule.micro_batches(),
                   .kept = schedule.sharded() ? Kept::own_shard : Kept::all});
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  if (schedule.sharded() && !ranks.alone()) optimizer.keep_to(sum.own_shard());
  std::vector<Array> result = {Array::full({}, static_cast<double>(word[4]), f64)};
  for (int step = 0; step < 2; ++step) {
    ranks.at_step(step);
    std::vector<double> losses;
    for (std::int64_t i = sum.first(); i < sum.last(); ++i) {
      Tape tape;
      const Tensor errors = squared_error(model.forward(x), y);
      const Tensor loss =
          mean(errors) * (1.0 + static_cast<double>(i)) + mean(large.tensor * large.tensor) * 0.5;
      losses.push_back(loss.item());
      sum.add(tape, loss, 0.25);
    }
    auto gathering = ranks.begin_gather(std::move(losses), "the losses");
    const Gradients gradients = sum.finish();
    const Clip clipped = sum.clip(0.1);
    optimizer.step(gradients, 0.01, clipped.scale);
    if (schedule.sharded()) pass_parameters_on(sum, parameters);
    double total = clipped.norm;
    for (const std::vector<double>& of_rank : ranks.end_gather(std::move(gathering)))
      for (const double loss : of_rank) total += loss;
    result.push_back(Array::full({}, total, f64));
  }
  if (schedule.sharded() && !ranks.alone()) gather_state(sum, optimizer, ranks);
  for (const Parameter* parameter : parameters) result.push_back(parameter->value());
  return result;
}

// The end of one rank of a schedule.
struct Ended {
  std::vector<Array> result{};  // empty: it ended early
  bool watches = false;         // whether it began to look for the dead
  std::string report{};         // what it said of them before it left
  std::string refusal{};        // what all ranks refused together
};

std::vector<Ended> play(Network& network) {
  const Schedule& schedule = network.schedule();
  std::vector<Ended> ended(schedule.ranks);
  const auto live = [&](int rank) {
    Ended& own = ended[rank];
    try {
      Ranks ranks = Ranks::over(std::make_unique<SimulatedTransport>(network, rank));
      ranks.watch(network.stop(), [&](const std::string& missing) { own.report = missing; });
      network.begin_work(rank);
      own.watches = true;
      own.result = train(ranks, schedule);
      network.end_work(rank);
      if (schedule.victim >= 0) return;
      ranks.agree("a refusal", [&] {
        expect_input(rank < static_cast<int>(schedule.seed % schedule.ranks), "rank {} refuses",
                     rank);
      });
    } catch (const InputError& error) {
      own.refusal = error.what();
    } catch (const Died&) {
    } catch (const Left&) {
    }
    network.end_work(rank);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < schedule.ranks; ++rank) threads.emplace_back(live, rank);
  for (std::thread& thread : threads) thread.join();
  return ended;
}

bool same_results(const std::vector<Array>& a, const std::vector<Array>& b) {
  return std::ranges::equal(a, b, same_bits);
}

// Checks that all ranks have the bits of one process, and refuse with the reason of the first.
// Returns the number of messages of each rank.
std::vector<std::int64_t> check_alive(const Schedule& schedule) {
  CAPTURE(schedule.seed);
  CAPTURE(schedule.ranks);
  Ranks alone;
  const std::vector<Array> expected = train(alone, schedule);
  Network network(schedule);
  std::vector<std::int64_t> messages;
  const std::vector<Ended> all = play(network);
  for (const Ended& ended : all) {
    CHECK(same_results(ended.result, expected));
    CHECK(ended.report == "");
    CHECK(ended.refusal == all[0].refusal);
    check_says(ended.refusal, {fmt::format("rank {} refuses", schedule.seed % schedule.ranks)});
    messages.push_back(network.messages_of(static_cast<int>(messages.size())));
  }
  return messages;
}

// Returns the ranks that a report says did not answer, as "ranks 1, 2"; "" if it says nothing.
std::string named_in(const std::string& report) {
  const std::size_t end = report.find(" did not answer while this rank waited for ");
  if (end == std::string::npos) return "";
  const std::size_t begin = report.rfind("rank", end);
  return report.substr(begin, end - begin);
}

const std::string named_another = "rank 0 named another: ";

// Returns "" if every rank ended, each unfinished one named ranks that it waited for, and rank 0
// named the victim.
std::string fault_of(const Schedule& schedule, const std::vector<Array>& expected) {
  Network network(schedule);
  const std::vector<Ended> all = play(network);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& [result, watches, report, refusal] = all[rank];
    const bool done = !result.empty();
    if (done && !same_results(result, expected)) return "other bits";
    if (rank == schedule.victim) {
      // This schedule may have fewer messages than the counted one.
      if ((done || report != "") && network.messages_of(rank) > schedule.dies_at)
        return "the victim lives";
    } else if (!done && watches && named_in(report).empty()) {
      return fmt::format("rank {} ended without a word", rank);
    } else if (!done && watches && rank == 0 &&
               named_in(report).find(std::to_string(schedule.victim)) == std::string::npos) {
      return named_another + report;
    }
  }
  return "";
}

// Plays many schedules at a time, because they mostly wait.
void check_deaths(const std::vector<Schedule>& schedules) {
  Ranks alone;
  const std::vector<Array> expected = train(alone, schedules.front());
  std::atomic<std::size_t> next = 0;
  Strings faults(schedules.size());
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i)
    threads.emplace_back([&] {
      for (std::size_t at; (at = next++) < schedules.size();)
        faults[at] = fault_of(schedules[at], expected);
    });
  for (std::thread& thread : threads) thread.join();
  // On a busy machine a living rank may get no processor for so long that it is named.
  for (std::size_t i = 0; i < schedules.size(); ++i)
    if (faults[i].starts_with(named_another)) faults[i] = fault_of(schedules[i], expected);
  for (std::size_t i = 0; i < schedules.size(); ++i)
    CHECK_MESSAGE(faults[i] == "", "seed ", schedules[i].seed, ", ", schedules[i].ranks,
                  " ranks, rank ", schedules[i].victim, " dies at message ", schedules[i].dies_at,
                  ": ", faults[i]);
}

// Lets each rank die at each of its messages, with `delays` different delays of all messages.
// Returns the number of schedules.
std::int64_t check_deaths_of(const Schedule& whole, int delays) {
  const std::vector<std::int64_t> messages = check_alive(whole);
  std::vector<Schedule> schedules;
  for (int i = 0; i < delays; ++i)
    for (int victim = 0; victim < whole.ranks; ++victim)
      for (std::int64_t at = 0; at < messages[victim]; ++at)
        schedules.push_back({.seed = whole.seed + 14 * static_cast<std::uint64_t>(i),
                             .ranks = whole.ranks,
                             .victim = victim,
                             .dies_at = at});
  check_deaths(schedules);
  return std::ssize(schedules);
}

TEST_SUITE_BEGIN("ranks");

TEST_CASE("ranks: delayed and reordered messages change no bits, and all refuse with one cause") {
  with_threads({1}, [&](int) {
    for (int seed = 0; seed < 120; ++seed)
      check_alive({.seed = mixed(seed), .ranks = 2 + seed % 4});
  });
}

TEST_CASE("ranks: if a rank dies at any of its messages, the others end and name it" *
          not_sanitized("ranks wait 0.3 s for each other, too short for many slow threads")) {
  with_threads({1}, [&](int) {
    check_deaths_of({.seed = 14, .ranks = 2}, 1);
    check_deaths_of({.seed = 35, .ranks = 3}, 1);
  });
}

TEST_CASE("ranks: ten thousand schedules of messages and deaths" * doctest::skip(true) *
          doctest::description("minutes")) {
  const std::int64_t count = from_environment("TAPESTRY_SCHEDULES", 10'000);
  with_threads({1}, [&](int) {
    std::int64_t played = 0;
    for (; played < count * 3 / 5; ++played)
      check_alive({.seed = mixed(1000 + played), .ranks = 2 + static_cast<int>(played % 4)});
    for (std::uint64_t round = 0; played < count; ++round)
      for (const Schedule& whole : {Schedule{.seed = 14, .ranks = 2},
                                    {.seed = 21, .ranks = 3},
                                    {.seed = 29, .ranks = 4},
                                    {.seed = 42, .ranks = 4}})
        if (played < count)
          played += check_deaths_of({.seed = whole.seed + 1400 * round, .ranks = whole.ranks}, 2);
    MESSAGE(played, " schedules");
  });
}

// Returns how a step ends on each rank if only micro-batch 0 uses the first parameter, and none
// uses the others: "" if the sum is correct, or the error of all ranks.
Strings sum_of_seldom(int count, int parameters) {
  const auto take_step = [&](Ranks& ranks) {
    std::vector<Parameter> all;
    for (int i = 0; i < parameters; ++i) all.emplace_back(normal({40}, 1, f32), Role::weight);
    std::vector<Parameter*> pointers;
    for (Parameter& parameter : all) pointers.push_back(&parameter);
    GradientSum sum(ranks, pointers, {.micro_batches = count + 1});
    for (std::int64_t i = sum.first(); i < sum.last(); ++i) {
      const Tensor other = Tensor::variable(Array::full({2}, 2));
      Tape tape;
      sum.add(tape, i == 0 ? tapestry::sum(all[0].tensor * 3) : tapestry::sum(other * 1), 1);
    }
    const Gradients gradients = sum.finish();
    const Array* gradient = gradients.find(all[0]);
    return gradient != nullptr && same_bits(*gradient, Array::full({40}, 3)) ? "" : "wrong sum";
  };
  Network network({.ranks = count});
  Strings ends(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      Ranks ranks = Ranks::over(std::make_unique<SimulatedTransport>(network, rank));
      try {
        ends[rank] = take_step(ranks);
      } catch (const std::invalid_argument& error) {
        ends[rank] = (ranks.is_agreed() ? "all: " : "alone: ") + std::string(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST_CASE("bug: ranks: a parameter without a gradient on one rank alone ended that rank") {
  for (const std::string& end : sum_of_seldom(3, 1)) CHECK(end == "");
  for (const std::string& end : sum_of_seldom(3, 2))
    CHECK(end ==
          "all: GradientSum: parameter  (40,) has no gradient; expected one from a micro-batch of "
          "any rank");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
