#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "autograd/ops.hpp"
#include "autograd/random.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/labels.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("random");

TEST_CASE("random: Philox4x32-10 gives its authors' known answers") {
  Random zero(0, Stream::init, 0);
  for (const std::uint32_t word : {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u})
    CHECK(zero.bits() == word);
}

TEST_CASE("random: moments of uniform and normal numbers" * not_sanitized("draws millions")) {
  constexpr int n = 1000000;
  const auto moments = [](const std::vector<double>& x) {
    std::array<double, 4> m{};
    for (const double v : x)
      for (int power = 0; power < 4; ++power) m[power] += std::pow(v, power + 1) / n;
    return m;
  };
  for (const bool filled : {false, true})
    for (const DType dtype : {f32, f64}) {
      Random random(7, Stream::data);
      Array uniform(Shape{n}, dtype), gauss(Shape{n}, dtype);
      if (filled) {
        random.fill_uniform(uniform, 0, 1);
        random.fill_normal(gauss, 0, 1);
      } else {
        std::vector<double> u(n), g(n);
        std::ranges::generate(u, [&] { return random.uniform(); });
        std::ranges::generate(g, [&] { return random.normal(); });
        uniform = row(u).to(dtype), gauss = row(g).to(dtype);
      }
      const auto u = moments(doubles(uniform)), g = moments(doubles(gauss));
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(std::abs(u[i] - 1.0 / static_cast<double>(i + 2)) < 0.002);  // 5 standard errors
      CHECK(std::abs(g[0]) < 0.005);
      CHECK(std::abs(g[1] - 1) < 0.01);
      CHECK(std::abs(g[2]) < 0.02);
      CHECK(std::abs(g[3] - 3) < 0.05);
    }
  Array shifted(Shape{n}, f32);
  Random(7, Stream::data).fill_normal(shifted, 3, 0.5);
  const auto m = moments(doubles(shifted));
  CHECK(m[0] == doctest::Approx(3).epsilon(0.001));
  CHECK(m[1] - m[0] * m[0] == doctest::Approx(0.25).epsilon(0.01));
}

TEST_CASE("random: seeds, streams and steps are independent, and repeat") {
  std::vector<std::vector<double>> drawn;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (const Stream stream :
         {Stream::init, Stream::data, Stream::dropout, Stream::eval, Stream::sample})
      for (const std::uint64_t step : {0ull, 1ull, 1ull << 32, (1ull << 56) - 1}) {
        Array array(Shape{1000}, f64);
        Random(seed, stream, step).fill_normal(array, 0, 1);
        drawn.push_back(doubles(array));
        Random(seed, stream, step).fill_normal(array, 0, 1);
        CHECK(doubles(array) == drawn.back());
      }
  for (std::size_t i = 0; i < drawn.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double correlation =
          std::inner_product(drawn[i].begin(), drawn[i].end(), drawn[j].begin(), 0.0) / 1000;
      CHECK(std::abs(correlation) < 0.17);  // 5 standard errors
    }
  CHECK_THROWS_AS(Random(0, Stream::init, 1ull << 56), std::invalid_argument);
}

TEST_CASE("random: numbers of one generator do not repeat") {
  Random random(0, Stream::data);
  Array first(Shape{7}, f64), second(Shape{7}, f64);
  const std::uint32_t before = random.bits();
  random.fill_uniform(first, 0, 1);
  random.fill_uniform(second, 0, 1);
  CHECK(doubles(first) != doubles(second));
  CHECK(random.bits() != before);
}

TEST_CASE("random: masks hide the given share, each element by its own word") {
  for (const std::int64_t n : {1, 63, 64, 65, 100003})
    for (const DType dtype : {f32, f64}) {
      Array mask = Array::full({n}, 2, dtype);
      Random random(3, Stream::dropout, 9), words(3, Stream::dropout, 9);
      random.mask(mask, mask, 0.25, 1.5);
      std::vector<std::uint32_t> bits((n + 63) / 64 * 64);
      for (std::uint32_t& word : bits) word = words.bits();
      const std::vector<double> values = doubles(mask);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t block = i / 64 * 16 + i % 16, word = i % 64 / 16;
        if (values[i] != (bits[4 * block + word] < 0x40000000u ? 0 : 3))
          FAIL_CHECK("element " << i);
      }
      CHECK(random.bits() == words.bits());  // both are after the same blocks
    }
  Array mask(Shape{3}, f32);
  Random random(3, Stream::dropout);
  CHECK_THROWS_AS(random.mask(mask, mask, 1, 2), std::invalid_argument);
}

TEST_CASE("random: below() is in range and uniform") {
  Random random(5, Stream::sample);
  for (const std::int64_t bound : {1ll, 2ll, 3ll, 10ll, 1ll << 40}) {
    std::vector<int> count(10);
    for (int i = 0; i < 10000; ++i) {
      const std::int64_t drawn = random.below(bound);
      REQUIRE((drawn >= 0 && drawn < bound));
      if (bound <= 10) ++count[drawn];
    }
    for (std::int64_t i = 0; bound <= 10 && i < bound; ++i)
      CHECK(std::abs(count[i] - 10000 / bound) < 500);
  }
  CHECK_THROWS_AS(random.below(0), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
