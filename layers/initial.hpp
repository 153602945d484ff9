#pragma once

#include <cstdint>
#include <stdexcept>

#include "autograd/random.hpp"
#include "autograd/restore.hpp"

// Initial values of parameters, float32.
namespace tapestry {

// While it lives, the initial values that this thread draws may take so many bytes together: a
// model that is too large for its checkpoint is known before it fills the memory. Beyond,
// InitialValuesTooLarge.
class InitialValuesLimit final : Restore<std::int64_t> {
 public:
  explicit InitialValuesLimit(std::int64_t bytes);
  static std::int64_t left();  // bytes, without a limit the largest number
};
struct InitialValuesTooLarge : std::length_error {
  using std::length_error::length_error;
};

// While it lives, this thread draws no initial values, or does so again: what they would be is
// written over, by those of a checkpoint.
class SkipInitialValues final : Restore<bool> {
 public:
  explicit SkipInitialValues(bool is_left_out = true);
};

// While it lives, initial values that this thread makes are rehearsed (autograd/dry_run.hpp): a
// model of any size has its shapes.
class InitialDryRun final : Restore<bool> {
 public:
  InitialDryRun();
};

Array normal(const Shape& shape, double standard_deviation, Random& init);
Array uniform(const Shape& shape, double bound, Random& init);  // in [-bound, bound)

}  // namespace tapestry
