#include "data/permutation.hpp"

#include <algorithm>
#include <bit>

#include "autograd/check.hpp"
#include "data/validation_split.hpp"

namespace tapestry {

Permutation::Permutation(std::int64_t size, Random& random) : size_(size) {
  require(size >= 1 && size <= std::int64_t{1} << 62, "Permutation: of {}", size);
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1)));
  half_bits_ = std::max(1, (bits + 1) / 2);
  for (std::uint64_t& key : keys_) {
    const std::uint64_t upper = random.bits();
    key = upper << 32 | random.bits();
  }
}

std::int64_t Permutation::operator[](std::int64_t place) const {
  require(place >= 0 && place < size_, "Permutation: place {} of {}", place, size_);
  std::uint64_t number = encrypt(static_cast<std::uint64_t>(place));
  while (number >= static_cast<std::uint64_t>(size_)) number = encrypt(number);
  return static_cast<std::int64_t>(number);
}

// Each round can be undone, whatever `mix` makes of the right half: so none gives a number twice.
std::uint64_t Permutation::encrypt(std::uint64_t number) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = number >> half_bits_, right = number & mask;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t mixed = left ^ (mix(right ^ key) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace tapestry
