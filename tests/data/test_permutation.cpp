#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/random.hpp"
#include "data/sampler.hpp"

// In which order examples are read where an index of them would be large.
namespace tapestry {
namespace {

using Examples = std::vector<std::int64_t>;

TEST_SUITE_BEGIN("permutation");

Permutation permutation(std::int64_t size, std::uint64_t seed) {
  Random random(seed, Stream::data);
  return {size, random};
}

// Pearson's statistic against equal counts, in standard deviations from its mean.
double unevenness(const std::vector<int>& counts, double draws) {
  const double expected = draws / static_cast<double>(counts.size());
  const double freedom = static_cast<double>(counts.size()) - 1;
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST_CASE("Permutation: every number stands at one place, whatever the size") {
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

TEST_CASE("Permutation: any number stands at any place, beside any other, equally often") {
  constexpr std::int64_t size = 20, draws = 40'000;
  std::vector<int> first(size), second_after_first(size * size);
  for (std::int64_t seed = 0; seed < draws; ++seed) {
    const Permutation order = permutation(size, static_cast<std::uint64_t>(seed));
    ++first[order[7]];
    ++second_after_first[order[7] * size + order[8]];
  }
  for (std::int64_t i = size - 1; i >= 0; --i)  // none stands at two places
    second_after_first.erase(second_after_first.begin() + i * size + i);
  CHECK(std::abs(unevenness(first, draws)) < 5);
  CHECK(std::abs(unevenness(second_after_first, draws)) < 5);
}

TEST_CASE("Permutation: a large one is spread evenly, and so are the steps in it") {
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

TEST_CASE("bug: the order of a billion examples takes no index, and any place is found at once") {
  constexpr std::int64_t billion = 1'000'000'000;
  const std::clock_t begin = std::clock();  // of the processor, however busy the machine is
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
  CHECK(read(1, 12'345 * billion - 500).size() == 1000);  // over the end of an epoch
  CHECK(std::clock() - begin < CLOCKS_PER_SEC);
}

TEST_CASE("Sampler: up to the limit the order is that of an index, as it always was") {
  Random random(1, Stream::data, std::uint64_t{1} << 48);
  Examples shuffled{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  random.shuffle(shuffled);
  CHECK(Sampler(10, Order::shuffled, 1).next(10) == shuffled);
  CHECK(Sampler::most_indexed == 1 << 24);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
