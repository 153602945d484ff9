#include "autograd/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/check.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {
namespace {

std::uint32_t low(std::uint64_t word) { return word; }
std::uint32_t high(std::uint64_t word) { return word >> 32; }

// 53 bits as a number in [0, 1).
double to_unit(std::uint32_t upper, std::uint32_t lower) {
  const std::uint64_t bits = (std::uint64_t{upper} << 32 | lower) >> 11;
  return bits * 0x1p-53;
}

// Box and Muller 1958. 1 - u is in (0, 1], so the logarithm is finite.
std::array<double, 2> normal_pair(double u, double v) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

Random::Random(std::uint64_t seed, Stream stream, std::uint64_t step)
    : key_{low(seed), high(seed)}, lane_{std::uint32_t(stream) << 24 | high(step), low(step)} {
  require(step >> 56 == 0, "random: step {} is above 2^56", step);
}

// The inner loops run over blocks, so that the compiler computes them in vector registers.
template <std::size_t count>
Random::Blocks<count> Random::blocks(std::uint64_t first) const {
  Blocks<count> x;
  for (std::size_t i = 0; i < count; ++i) {
    x[0][i] = low(first + i);
    x[1][i] = high(first + i);
    x[2][i] = lane_[0];
    x[3][i] = lane_[1];
  }
  std::array<std::uint32_t, 2> key = key_;
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53} * x[0][i];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * x[2][i];
      x[0][i] = high(product1) ^ x[1][i] ^ key[0];
      x[1][i] = low(product1);
      x[2][i] = high(product0) ^ x[3][i] ^ key[1];
      x[3][i] = low(product0);
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x;
}

std::uint32_t Random::bits() {
  if (unused_ == 0) {
    current_ = blocks<1>(next_++);
    unused_ = 4;
  }
  return current_[4 - unused_--][0];
}

double Random::uniform() {
  const std::uint32_t upper = bits();
  return to_unit(upper, bits());
}

double Random::uniform(double low, double high) { return low + (high - low) * uniform(); }

double Random::normal() {
  const double u = uniform();
  return normal_pair(u, uniform())[0];
}

std::int64_t Random::below(std::int64_t bound) {
  require(bound >= 1, "random: below({})", bound);
  return std::int64_t(uniform() * bound);
}

// Each block gives two elements: element 2i and 2i+1 depend on block next_ + i alone.
template <class T, class Draw>
void Random::fill(Array& array, Draw draw) {
  if (is_blank_) return;
  const auto values = array.mutable_values<T>();
  const std::int64_t size = std::ssize(values);
  const std::int64_t pairs = (size + 1) / 2;
  parallel_for(pairs, 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Blocks<1> words = blocks<1>(next_ + i);
      const std::array<double, 2> pair =
          draw(to_unit(words[0][0], words[1][0]), to_unit(words[2][0], words[3][0]));
      values[2 * i] = pair[0];
      if (2 * i + 1 < size) values[2 * i + 1] = pair[1];
    }
  });
  next_ += pairs;
  unused_ = 0;
}

Random Random::blank() {
  Random random(0, Stream::init);
  random.is_blank_ = true;
  return random;
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

// One word an element: 64 elements are the words 0 of 16 blocks, then their words 1, 2 and 3.
void Random::fill_mask(Array& array, double probability, double value) {
  require(probability >= 0 && probability < 1, "random: a mask of probability {}", probability);
  constexpr std::int64_t lanes = 16, group = 4 * lanes;
  const std::uint32_t threshold = probability * 0x1p32;
  const std::int64_t groups = (array.size() + group - 1) / group;
  dispatch(array.dtype(), [&]<class T>() {
    const auto values = array.mutable_values<T>();
    const T kept = value;
    parallel_for(groups, 128, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t g = begin; g < end; ++g) {
        const Blocks<lanes> words = blocks<lanes>(next_ + lanes * g);
        const std::int64_t first = g * group, left = std::min(array.size() - first, group);
        for (std::int64_t i = 0; i < left; ++i)
          values[first + i] = words[i / lanes][i % lanes] < threshold ? T(0) : kept;
      }
    });
  });
  next_ += lanes * groups;
  unused_ = 0;
}

}  // namespace tapestry
