#pragma once

#include <cstdint>
#include <span>

#include "autograd/array.hpp"

namespace tapestry {

// What one step of training or evaluation reads.
struct Batch {
  Array inputs;   // what the model sees, first axis B
  Array targets;  // what it should say, first axis B
  double count;   // loss terms: targets that are not ignored, or images
};

// In `targets` of token batches: no loss at this position.
inline constexpr std::int32_t ignored_target = -1;

// A finite, indexed collection of examples. Batches of the same examples hold the same bits.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // examples, at least 1
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;
};

}  // namespace tapestry
