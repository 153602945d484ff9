#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "data/loader.hpp"
#include "data/sampler.hpp"
#include "tests/support/process.hpp"

// Tests batches that are made in advance, and the order of examples.
namespace tapestry {
namespace {

using Examples = std::vector<std::int64_t>;

TEST_SUITE_BEGIN("loader");

// The inputs of a batch are the numbers of its examples; `bad` is an error.
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

TEST_CASE("bug: the examples of a step depended on its micro-batches") {
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

TEST_CASE("Loader: makes a few batches in advance, and none before the first request") {
  const Numbers data;
  Loader loader(data, Sampler(data.size(), Order::shuffled, 1), {.batch_size = 4});
  loader.seek(40);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(data.made() == 0);
  for (int step = 1; step <= 5; ++step) {
    loader.next();
    CHECK(loader.position() ==
          40 + 4 * step);  // of requested batches, not of those made in advance
    while (data.made() < step + Loader::ahead) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(data.made() == step + Loader::ahead);
  }
  CHECK_THROWS_AS(loader.seek(0), std::invalid_argument);
  CHECK_THROWS_AS(
      Loader(data, Sampler(5, Order::shuffled, 1), {.batch_size = 4, .micro_batches = 3}),
      std::invalid_argument);
}

TEST_CASE("Loader: an exception of the data is thrown at its step, at each request") {
  const Numbers data(17);
  Loader loader(data, Sampler(data.size(), Order::sequential, 1), {.batch_size = 4});
  for (int step = 0; step < 4; ++step) CHECK(loader.next().size() == 1);
  for (int again = 0; again < 2; ++again) {
    CHECK(message_of([&] { loader.next(); }) == "example 17 is damaged");
    CHECK(loader.position() == 16);
  }
}

TEST_CASE("Loader: ends at any time, also while loops run on all threads") {
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

// Tests the order of examples where an index of them is too large.

using Examples = std::vector<std::int64_t>;

TEST_SUITE_BEGIN("permutation");

Permutation permutation(std::int64_t size, std::uint64_t seed) {
  Random random(seed, Stream::data);
  return {size, random};
}

// Returns Pearson's statistic for equal counts, in standard deviations from its mean.
double unevenness(const std::vector<int>& counts, double draws) {
  const double expected = draws / static_cast<double>(counts.size());
  const double freedom = static_cast<double>(counts.size()) - 1;
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST_CASE("Permutation: every number has one place, for any size") {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 255, 1000, 4096, 4097, 65537, 300001})
    for (const std::uint64_t seed : {0, 1}) {
      CAPTURE(size);
      const Permutation order = permutation(size, seed);
      std::vector<bool> seen(size);
      for (std::int64_t place = 0; place < size; ++place) {
        const std::int64_t number = order[place];
        REQUIRE((number >= 0 && number < size && !seen[number]));
        seen[number] = true;
      }
    }
  CHECK_THROWS_AS(permutation(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(permutation(5, 1)[5], std::invalid_argument);
}

TEST_CASE("Permutation: places and neighbors of numbers are uniform") {
  constexpr std::int64_t size = 20, draws = 40'000;
  std::vector<int> first(size), second_after_first(size * size);
  for (std::int64_t seed = 0; seed < draws; ++seed) {
    const Permutation order = permutation(size, static_cast<std::uint64_t>(seed));
    ++first[order[7]];
    ++second_after_first[order[7] * size + order[8]];
  }
  for (std::int64_t i = size - 1; i >= 0; --i)  // none has two places
    second_after_first.erase(second_after_first.begin() + i * size + i);
  CHECK(std::abs(unevenness(first, draws)) < 5);
  CHECK(std::abs(unevenness(second_after_first, draws)) < 5);
}

TEST_CASE("Permutation: a large permutation and its steps are spread evenly") {
  for (const std::int64_t size :
       {std::int64_t{1} << 25, std::int64_t{1'000'000'000}, (std::int64_t{1} << 40) + 12345}) {
    CAPTURE(size);
    const Permutation order = permutation(size, 3);
    constexpr std::int64_t bins = 64, draws = 64'000;
    const auto bin = [&](std::int64_t number) {
      return static_cast<std::int64_t>(static_cast<double>(number) / static_cast<double>(size) *
                                       bins);
    };
    std::vector<int> places(bins), last_bits(bins), steps(bins);
    for (std::int64_t place = 0; place < draws; ++place) {
      const std::int64_t number = order[place], next = order[place + 1];
      ++places[bin(number)];
      ++last_bits[number % bins];
      ++steps[bin((next - number + size) % size)];
    }
    for (const auto& counts : {places, last_bits, steps})
      CHECK(std::abs(unevenness(counts, draws)) < 5);
  }
}

TEST_CASE("bug: the order of a billion examples took an index in memory") {
  constexpr std::int64_t billion = 1'000'000'000;
  const std::clock_t begin = std::clock();  // CPU seconds, independent of the machine's load
  const auto read = [](std::uint64_t seed, std::int64_t position) {
    Sampler sampler(billion, Order::shuffled, seed);
    sampler.seek(position);
    return sampler.next(1000);
  };
  const Examples first = read(1, 0);
  CHECK(std::set(first.begin(), first.end()).size() == 1000);
  CHECK(std::ranges::max(first) < billion);
  CHECK(first == read(1, 0));
  CHECK(first != read(2, 0));
  CHECK(first != read(1, billion));  // the next epoch
  Examples tail = read(1, 600);
  tail.resize(400);
  CHECK(std::ranges::equal(tail, std::span(first).subspan(600)));
  CHECK(read(1, 12'345 * billion - 500).size() == 1000);  // across the end of an epoch
  CHECK(std::clock() - begin < 60 * CLOCKS_PER_SEC);      // six indices take minutes
}

TEST_CASE("Sampler: up to the limit the order is that of earlier versions") {
  Random random(1, Stream::data, std::uint64_t{1} << 48);
  Examples shuffled{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  random.shuffle(shuffled);
  CHECK(Sampler(10, Order::shuffled, 1).next(10) == shuffled);
  CHECK(Sampler::most_indexed == 1 << 24);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
