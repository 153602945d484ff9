#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "autograd/random.hpp"

namespace tapestry {

enum class Order {
  shuffled,          // every example once per epoch, each epoch in a new order
  with_replacement,  // independent uniform draws
  sequential,        // 0, 1, …, size - 1, then from 0 again
  similar_lengths,   // shuffled so that batches have little padding
};

// Options of Order::similar_lengths. A shuffled epoch is divided into pools; each pool is sorted by
// length and divided into batches, and the batches of all pools are shuffled. An epoch omits fewer
// than `batch` examples, different ones each time.
struct SimilarLengths {
  std::int64_t batch = 1;               // examples per step, that is per call of next()
  std::int64_t pool = 100;              // batches per pool: more save padding, fewer shuffle better
  std::vector<std::int64_t> lengths{};  // length of each example, in any unit
};

// A random order of 0, 1, …, size - 1 that takes no memory, because each element is computed. The
// position is encrypted by a Feistel network (Luby & Rackoff 1988) over the least even number of
// bits, 2 or more, that represents all positions, repeatedly until the result is below size (cycle
// walking: Black & Rogaway 2002, "Ciphers with Arbitrary Finite Domains"), less than four times on
// average.
class Permutation final {
 public:
  // Draws the keys of the rounds from `random`. Throws std::invalid_argument unless the size is in
  // [1, 2^62].
  Permutation(std::int64_t size, Random& random);

  // Returns the element at `place`. Throws std::invalid_argument unless place is in [0, size).
  std::int64_t operator[](std::int64_t place) const;

 private:
  std::uint64_t encrypt(std::uint64_t number) const;

  std::int64_t size_;
  int half_bits_ = 1;
  std::array<std::uint64_t, 8> keys_;
};

// A sampler of the examples of each step, as a function of seed and position, so that a resumed run
// that seeks to its position reads the same examples. A batch may extend over several epochs, but
// with similar lengths only if there are fewer examples than `batch`. The index of a shuffled epoch
// takes 8 bytes per example; above most_indexed examples, Order::shuffled has no index and computes
// each element.
class Sampler {
 public:
  static constexpr std::int64_t most_indexed = 1 << 24;

  // `similar` is used by Order::similar_lengths only. Throws std::invalid_argument unless size,
  // batch and pool are at least 1 and there is one length per example.
  Sampler(std::int64_t size, Order order, std::uint64_t seed, SimilarLengths similar = {});

  // Returns the next `count` examples, in [0, size), and advances the position by count.
  std::vector<std::int64_t> next(std::int64_t count);

  std::int64_t position() const { return position_; }  // examples read since the start
  void seek(std::int64_t position);                    // throws std::invalid_argument if negative

 private:
  std::int64_t at(std::int64_t position);
  void shuffle(std::int64_t epoch);
  void group_by_length(Random& random);

  std::int64_t size_;
  Order order_;
  std::uint64_t seed_;
  SimilarLengths similar_;
  std::int64_t epoch_size_;
  std::int64_t position_ = 0;
  std::int64_t epoch_ = -1;                // the epoch that was shuffled last
  std::vector<std::int64_t> permutation_;  // the order as an index
  std::optional<Permutation> computed_;    // the order without an index
};

}  // namespace tapestry
