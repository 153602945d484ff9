#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// The purpose of random numbers. Streams are independent of each other.
enum class Stream : std::uint32_t { init, data, dropout, eval, sample, adapters };

// A counter-based random number generator, Philox4x32-10 (Salmon et al. 2011, "Parallel Random
// Numbers: As Easy as 1, 2, 3"). The n-th number is a function of (seed, stream, step, n) only.
// Functions throw std::invalid_argument for arguments out of range.
class Random {
 public:
  Random(std::uint64_t seed, Stream stream, std::uint64_t step = 0);

  // Returns a generator whose fill_uniform() and fill_normal() do nothing, for models that are only
  // measured.
  static Random blank();

  std::uint32_t bits();
  double uniform();  // returns a number in [0, 1), with 53 bits
  double uniform(double low, double high);
  double normal();                         // returns a number of mean 0 and standard deviation 1
  std::int64_t below(std::int64_t bound);  // returns a number in [0, bound), bound >= 1

  // Shuffles all values (Fisher-Yates; Knuth, TAOCP 2, algorithm 3.4.2P).
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t left = values.size(); left > 1; --left)
      std::swap(values[left - 1], values[below(left)]);
  }
  // Shuffles until the first `count` values are a random sample of all.
  template <class T>
  void shuffle_start(std::vector<T>& values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      std::swap(values[i], values[i + below(std::ssize(values) - i)]);
  }

  // Fill a floating array, with the same numbers for any number of threads.
  void fill_uniform(Array& array, double low, double high);
  void fill_normal(Array& array, double mean, double standard_deviation);
  // Writes from · m to `to`, where each element of m is 0 with this probability, rounded down to a
  // multiple of 2^-32, else `value`. Both have one shape and floating dtype, and may be one array.
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
  int unused_ = 0;  // number of unused words of current_
  bool is_blank_ = false;
};

}  // namespace tapestry
