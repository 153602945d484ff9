#include "autograd/random.hpp"

#include <cmath>
#include <numbers>

#include "autograd/check.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {
namespace {

double to_unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Box and Muller 1958. 1 - u is in (0, 1], so the logarithm is finite.
std::array<double, 2> normal_pair(double u, double v) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

Random::Random(std::uint64_t seed, Stream stream, std::uint64_t step)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      lane_{static_cast<std::uint32_t>(stream) << 24 | static_cast<std::uint32_t>(step >> 32),
            static_cast<std::uint32_t>(step)} {
  require(step >> 56 == 0, "random: step {} is above 2^56", step);
}

Random::Block Random::block(std::uint64_t index) const {
  Block counter{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                lane_[0], lane_[1]};
  std::array<std::uint32_t, 2> key = key_;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint32_t Random::bits() {
  if (unused_ == 0) {
    current_ = block(next_++);
    unused_ = 4;
  }
  return current_[4 - unused_--];
}

double Random::uniform() {
  const std::uint32_t high = bits();
  return to_unit(high, bits());
}

double Random::uniform(double low, double high) { return low + (high - low) * uniform(); }

double Random::normal() {
  const double u = uniform();
  return normal_pair(u, uniform())[0];
}

std::int64_t Random::below(std::int64_t bound) {
  require(bound >= 1, "random: below({})", bound);
  return static_cast<std::int64_t>(uniform() * static_cast<double>(bound));
}

// Each block gives two elements: element 2i and 2i+1 depend on block next_ + i alone.
template <class T, class Draw>
void Random::fill(Array& array, Draw draw) {
  const auto values = array.mutable_values<T>();
  const auto size = static_cast<std::int64_t>(values.size());
  const std::int64_t pairs = (size + 1) / 2;
  parallel_for(pairs, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Block words = block(next_ + static_cast<std::uint64_t>(i));
      const std::array<double, 2> pair =
          draw(to_unit(words[0], words[1]), to_unit(words[2], words[3]));
      values[2 * i] = static_cast<T>(pair[0]);
      if (2 * i + 1 < size) values[2 * i + 1] = static_cast<T>(pair[1]);
    }
  });
  next_ += static_cast<std::uint64_t>(pairs);
  unused_ = 0;
}

void Random::fill_uniform(Array& array, double low, double high) {
  dispatch(array.dtype(), [&]<class T>() {
    fill<T>(array, [=](double u, double v) {
      return std::array{low + (high - low) * u, low + (high - low) * v};
    });
  });
}

void Random::fill_normal(Array& array, double mean, double standard_deviation) {
  dispatch(array.dtype(), [&]<class T>() {
    fill<T>(array, [=](double u, double v) {
      const auto pair = normal_pair(u, v);
      return std::array{mean + standard_deviation * pair[0], mean + standard_deviation * pair[1]};
    });
  });
}

}  // namespace tapestry
