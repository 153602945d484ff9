#include "autograd/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "autograd/check.hpp"
#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

std::uint32_t low(std::uint64_t word) { return word; }
std::uint32_t high(std::uint64_t word) { return word >> 32; }

// Returns 53 bits as a number in [0, 1).
double to_unit(std::uint32_t upper, std::uint32_t lower) {
  const std::uint64_t bits = (std::uint64_t{upper} << 32 | lower) >> 11;
  return bits * 0x1p-53;
}

// Returns two normal numbers (Box & Muller 1958). 1 - u is in (0, 1], so the logarithm is finite.
std::array<double, 2> normal_pair(double u, double v) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Computes the ten rounds on counters whose words are in the low halves of 64-bit lanes; high
// halves are ignored.
template <class Lanes>
std::array<Lanes, 4> philox(std::array<Lanes, 4> x, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const Lanes product0 = multiply_low_halves(x[0], Lanes(std::uint64_t{0xD2511F53}));
    const Lanes product1 = multiply_low_halves(x[2], Lanes(std::uint64_t{0xCD9E8D57}));
    x = {(product1 >> 32) ^ x[1] ^ Lanes(std::uint64_t{key[0]}), product1,
         (product0 >> 32) ^ x[3] ^ Lanes(std::uint64_t{key[1]}), product0};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x;
}

// The random words of a mask are computed for 64 elements at once: the words 0 of 16 blocks, then
// their words 1, 2 and 3, each in the low half of a lane.
constexpr std::int64_t group_blocks = 16, group_words = 4 * group_blocks;

void draw_group(std::uint64_t first, std::array<std::uint32_t, 2> lane,
                std::array<std::uint32_t, 2> key, std::uint64_t* words) {
  alignas(64) std::array<std::uint64_t, Lanes64::size> numbers;
  std::iota(numbers.begin(), numbers.end(), first);
  Lanes64 index = Lanes64::load_aligned(numbers.data());
  for (std::int64_t i = 0; i < group_blocks; i += Lanes64::size) {
    const std::array<Lanes64, 4> x = philox<Lanes64>(
        {index, index >> 32, Lanes64(std::uint64_t{lane[0]}), Lanes64(std::uint64_t{lane[1]})},
        key);
    for (std::int64_t word = 0; word < 4; ++word)
      x[word].store_aligned(words + word * group_blocks + i);
    index += Lanes64(std::uint64_t{Lanes64::size});
  }
}

}  // namespace

Random::Random(std::uint64_t seed, Stream stream, std::uint64_t step)
    : key_{low(seed), high(seed)}, lane_{std::uint32_t(stream) << 24 | high(step), low(step)} {
  require_value(step >> 56 == 0, "random", "step", step, "a number below 2^56");
}

Random::Block Random::block(std::uint64_t index) const {
  const std::array<std::uint64_t, 4> x =
      philox<std::uint64_t>({index, index >> 32, lane_[0], lane_[1]}, key_);
  return {low(x[0]), low(x[1]), low(x[2]), low(x[3])};
}

std::uint32_t Random::bits() {
  if (unused_ == 0) {
    current_ = block(next_++);
    unused_ = 4;
  }
  return current_[4 - unused_--];
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
  require_value(bound >= 1, "random", "bound", bound, "1 or more");
  return std::int64_t(uniform() * bound);
}

// Fills an array in pairs: elements 2i and 2i + 1 depend only on block next_ + i.
template <class T, class Draw>
void Random::fill(Array& array, Draw draw) {
  if (is_blank_) return;
  const auto values = array.mutable_values<T>();
  const std::int64_t size = std::ssize(values);
  const std::int64_t pairs = (size + 1) / 2;
  parallel_for(pairs, 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Block words = block(next_ + i);
      const std::array<double, 2> pair =
          draw(to_unit(words[0], words[1]), to_unit(words[2], words[3]));
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

// Sets the elements by one random word each.
void Random::mask(const Array& from, Array& to, double probability, double value) {
  require_value(probability >= 0 && probability < 1, "random", "probability", probability,
                "0 or more and below 1");
  const std::uint32_t threshold = probability * 0x1p32;
  const std::int64_t size = to.size(), groups = (size + group_words - 1) / group_words;
  dispatch(to.dtype(), [&]<class T>() {
    const T* in = from.values<T>().data();
    T* out = to.mutable_values<T>().data();
    const T kept = value;
    parallel_for(groups, 128, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::uint64_t words[group_words];
      alignas(64) T factors[group_words];
      for (std::int64_t group = begin; group < end; ++group) {
        draw_group(next_ + group_blocks * group, lane_, key_, words);
        std::transform(words, words + group_words, factors,
                       [=](std::uint64_t word) { return low(word) < threshold ? T(0) : kept; });
        const std::int64_t first = group * group_words;
        map_span(std::min(size - first, group_words), {in + first, factors}, out + first,
                 [](auto x, auto factor) { return x * factor; });
      }
    });
  });
  next_ += group_blocks * groups;
  unused_ = 0;
}

}  // namespace tapestry
