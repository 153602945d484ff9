#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autograd/random.hpp"
#include "data/permutation.hpp"

namespace tapestry {

enum class Order {
  shuffled,          // every example once an epoch, each epoch in a new order
  with_replacement,  // independent uniform draws
  sequential,        // 0, 1, …, size - 1, and again from 0
  similar_lengths,   // shuffled, but so that little of a batch is padding
};

// For Order::similar_lengths. A shuffled epoch is dealt into pools; each pool is sorted by length
// and cut into batches, and the batches of all pools are shuffled. Fewer than `batch` examples,
// others each time, sit an epoch out.
struct SimilarLengths {
  std::int64_t batch = 1;               // examples of a step: of each call of next()
  std::int64_t pool = 100;              // batches sorted together: more saves padding, less mixes
  std::vector<std::int64_t> lengths{};  // of each example, in any unit
};

// Which examples a step reads: a function of (seed, position) alone, so a resumed run that seeks to
// its old position reads what it would have read. A batch may straddle two epochs, but for similar
// lengths. An index of the shuffled epoch takes 8 bytes an example; above most_indexed examples
// there is none, and each place is computed.
class Sampler {
 public:
  static constexpr std::int64_t most_indexed = 1 << 24;

  Sampler(std::int64_t size, Order order, std::uint64_t seed,
          SimilarLengths similar = {});  // size >= 1

  // The next `count` examples, in [0, size); position() moves on by count.
  std::vector<std::int64_t> next(std::int64_t count);

  std::int64_t position() const { return position_; }  // examples read since the start
  void seek(std::int64_t position);

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
  std::int64_t epoch_ = -1;                // that was shuffled last
  std::vector<std::int64_t> permutation_;  // its order, as an index
  std::optional<Permutation> computed_;    // or without
};

}  // namespace tapestry
