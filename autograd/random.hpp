#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// What the numbers are for. Each stream's numbers are independent of how much the others draw.
enum class Stream : std::uint32_t { init, data, dropout, eval, sample, adapters };

// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As
// Easy as 1, 2, 3"). The n-th number is a function of (seed, stream, step, n) alone.
class Random {
 public:
  Random(std::uint64_t seed, Stream stream, std::uint64_t step = 0);

  // One that fills nothing: arrays keep what their memory held. For what is made to be measured.
  static Random blank();

  std::uint32_t bits();
  double uniform();  // in [0, 1), 53 bits
  double uniform(double low, double high);
  double normal();                         // mean 0, standard deviation 1
  std::int64_t below(std::int64_t bound);  // in [0, bound), bound >= 1

  // Fisher and Yates's shuffle (Knuth, TAOCP 2, algorithm 3.4.2P).
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t left = values.size(); left > 1; --left)
      std::swap(values[left - 1], values[below(left)]);
  }
  // Shuffles only as far as the first `count` values are a random choice of all.
  template <class T>
  void shuffle_start(std::vector<T>& values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      std::swap(values[i], values[i + below(std::ssize(values) - i)]);
  }

  // Fill a floating array; the same numbers at any thread count.
  void fill_uniform(Array& array, double low, double high);
  void fill_normal(Array& array, double mean, double standard_deviation);
  // to = from, each element times 0 with this probability (a multiple of 2^-32), else times
  // `value`. One shape and floating dtype; they may be one array.
  void mask(const Array& from, Array& to, double probability, double value);

 private:
  using Block = std::array<std::uint32_t, 4>;
  Block block(std::uint64_t index) const;
  template <class T, class Draw>
  void fill(Array& array, Draw draw);

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> lane_;  // stream and step
  std::uint64_t next_ = 0;             // the next block
  Block current_{};
  int unused_ = 0;  // words of current_ not yet given
  bool is_blank_ = false;
};

}  // namespace tapestry
