#pragma once

#include <array>
#include <cstdint>

#include "autograd/random.hpp"

namespace tapestry {

// A random order of 0, 1, …, size - 1 that takes no memory: what stands at a place is computed. The
// places' numbers go through a Feistel network (Luby & Rackoff 1988) over the least even number of
// bits that holds them, again and again until they are below size (cycle walking: Black & Rogaway
// 2002, "Ciphers with Arbitrary Finite Domains"), less than four times on average.
class Permutation final {
 public:
  // The keys of its rounds are drawn from `random`; size in [1, 2^62].
  Permutation(std::int64_t size, Random& random);

  std::int64_t operator[](std::int64_t place) const;  // place in [0, size)

 private:
  std::uint64_t encrypt(std::uint64_t number) const;

  std::int64_t size_;
  int half_bits_ = 1;
  std::array<std::uint64_t, 8> keys_;
};

}  // namespace tapestry
