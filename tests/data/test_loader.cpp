#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "autograd/parallel.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "data/loader.hpp"
#include "data/sampler.hpp"
#include "tests/support/process.hpp"

// Batches made ahead of the steps that read them, and the order of their examples.
namespace tapestry {
namespace {

using Examples = std::vector<std::int64_t>;

TEST_SUITE_BEGIN("loader");

// A batch's inputs are its examples; `bad` is none of them.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t bad = -1) : bad_(bad) {}
  std::int64_t size() const override { return 1000; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    ++made_;
    std::vector<std::int32_t> numbers(examples.begin(), examples.end());
    if (std::ranges::find(examples, bad_) != examples.end())
      throw InputError(fmt::format("example {} is damaged", bad_));
    return {.inputs = Array::of(numbers, {std::ssize(numbers)}),
            .targets = {},
            .count = static_cast<double>(numbers.size())};
  }
  int made() const { return made_; }

 private:
  std::int64_t bad_;
  mutable std::atomic<int> made_ = 0;
};

Examples examples_of(const std::vector<Batch>& batches) {
  Examples all;
  for (const Batch& batch : batches)
    for (const std::int32_t example : batch.inputs.values<std::int32_t>()) all.push_back(example);
  return all;
}

TEST_CASE("bug: what a step reads does not depend on the parts that it is cut into") {
  const Numbers data;
  Examples lengths(data.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + i * 37 % 41;
  for (const Order order : {Order::shuffled, Order::with_replacement, Order::similar_lengths}) {
    Sampler whole(data.size(), order, 1, {.batch = 8, .lengths = lengths});
    for (const std::int64_t micro_batches : {1, 2, 4, 8}) {
      Sampler sampler = whole;
      Loader loader(data, whole, {.batch_size = 8, .micro_batches = micro_batches});
      for (int step = 0; step < 300; ++step) {
        const std::vector<Batch> batches = loader.next();
        REQUIRE(std::ssize(batches) == micro_batches);
        REQUIRE(examples_of(batches) == sampler.next(8));
        REQUIRE(loader.position() == sampler.position());
      }
    }
  }
}

TEST_CASE("Loader: batches are made ahead, but few, and none before the first is asked for") {
  const Numbers data;
  Loader loader(data, Sampler(data.size(), Order::shuffled, 1), {.batch_size = 4});
  loader.seek(40);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(data.made() == 0);
  for (int step = 1; step <= 5; ++step) {
    loader.next();
    CHECK(loader.position() == 40 + 4 * step);  // of what was asked for, not of what was made
    while (data.made() < step + Loader::ahead) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(data.made() == step + Loader::ahead);
  }
  CHECK_THROWS_AS(loader.seek(0), std::invalid_argument);
  CHECK_THROWS_AS(
      Loader(data, Sampler(5, Order::shuffled, 1), {.batch_size = 4, .micro_batches = 3}),
      std::invalid_argument);
}

TEST_CASE("Loader: what the data throw is thrown at its step, again and again") {
  const Numbers data(17);
  Loader loader(data, Sampler(data.size(), Order::sequential, 1), {.batch_size = 4});
  for (int step = 0; step < 4; ++step) CHECK(loader.next().size() == 1);
  for (int again = 0; again < 2; ++again) {
    CHECK(message_of([&] { loader.next(); }) == "example 17 is damaged");
    CHECK(loader.position() == 16);
  }
}

TEST_CASE("Loader: ends at any time, and beside loops on all threads") {
  const SyntheticGraphs data({.examples = 1000, .seed = 1});
  for (int rounds = 0; rounds < 20; ++rounds) {
    const Sampler sampler(data.size(), Order::shuffled, 1);
    Loader unused(data, sampler, {.batch_size = 4});
    Loader loader(data, sampler, {.batch_size = 4});
    Sampler same = sampler;
    for (int step = 0; step < rounds % 4; ++step) {
      std::atomic<int> sum = 0;
      parallel_for(64, 1, [&](std::int64_t first, std::int64_t) { sum += int(first); });
      CHECK(sum == 63 * 64 / 2);
      const Batch made = std::move(loader.next().front()), direct = data.batch(same.next(4));
      CHECK(std::ranges::equal(made.targets.values<std::int32_t>(),
                               direct.targets.values<std::int32_t>()));
      CHECK(made.part<GraphPart>().adjacency.list() == direct.part<GraphPart>().adjacency.list());
    }
  }
}

// --- sampler ---

TEST_CASE("Sampler: shuffled reads every example once an epoch, in a new order each time") {
  Sampler sampler(10, Order::shuffled, 1);
  std::vector<std::int64_t> first = sampler.next(7), rest = sampler.next(13);
  first.insert(first.end(), rest.begin(), rest.begin() + 3);
  std::vector<std::int64_t> second(rest.begin() + 3, rest.end());
  CHECK(first != second);
  std::ranges::sort(first);
  std::ranges::sort(second);
  const std::vector<std::int64_t> everything{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(first == everything);
  CHECK(second == everything);
  CHECK(sampler.position() == 20);
}

TEST_CASE("Sampler: a resumed sampler reads what an uninterrupted one does") {
  for (const Order order : {Order::shuffled, Order::with_replacement, Order::sequential}) {
    Sampler whole(13, order, 5), resumed(13, order, 5);
    const std::vector<std::int64_t> all = whole.next(100);
    for (const std::int64_t position : {64, 0, 13, 12, 99}) {
      resumed.seek(position);
      CHECK(resumed.position() == position);
      const std::vector<std::int64_t> tail(all.begin() + position, all.end());
      CHECK(resumed.next(100 - position) == tail);
    }
  }
}

TEST_CASE("Sampler: orders, seeds and uniformity") {
  CHECK(Sampler(3, Order::sequential, 0).next(5) == std::vector<std::int64_t>{0, 1, 2, 0, 1});
  CHECK(Sampler(99, Order::shuffled, 1).next(99) != Sampler(99, Order::shuffled, 2).next(99));
  std::vector<int> counts(10);
  for (const std::int64_t example : Sampler(10, Order::with_replacement, 3).next(10'000))
    ++counts[example];
  for (const int count : counts) CHECK(std::abs(count - 1000) < 150);  // 5 standard deviations
  CHECK_THROWS_AS(Sampler(0, Order::shuffled, 0), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
