#pragma once

#include <cstdint>
#include <vector>

#include "autograd/random.hpp"
#include "data/dataset.hpp"
#include "data/option_error.hpp"
#include "data/validation_split.hpp"

// What synthetic data sets share.
namespace tapestry {

// Throw OptionError of an option out of range, and of a number of examples below 1.
inline void expect_range(const char* option, std::int64_t value, std::int64_t low,
                         std::int64_t high) {
  expect_option(value >= low && value <= high, option, "{} = {}: expected {} to {}", option, value,
                low, high);
}
inline void expect_examples(std::int64_t examples, const char* option = "examples") {
  expect_option(examples >= 1, option, "{} examples; expected at least 1", examples);
}

// The number of the first validation example of a data set in which each number gives another
// example. No training split is that large.
inline constexpr std::uint64_t first_validation_example = std::uint64_t{1} << 32;

// Returns the first input that belongs to the split of those that `draw` returns for the example.
template <class Options, class Draw>
auto draw_of(const Options& options, std::int64_t example, Draw draw) {
  Random random(options.seed, Stream::data, static_cast<std::uint64_t>(example));
  auto input = draw(random);
  while (split_of(input) != options.split) input = draw(random);
  return input;
}

// Returns `count` different numbers in [0, n) in random order.
inline std::vector<std::int64_t> choose(std::int64_t count, std::int64_t n, Random& random) {
  std::vector<std::int64_t> numbers = indices(0, n);
  random.shuffle_start(numbers, count);
  numbers.resize(count);
  return numbers;
}

}  // namespace tapestry
