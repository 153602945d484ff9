#pragma once

#include <cstdint>
#include <stdexcept>

#include "autograd/random.hpp"

// Initial values of parameters, float32.
namespace tapestry {

// While it lives, the initial values that this thread draws may take so many bytes together: a
// model that is too large for its checkpoint is known before it fills the memory. Beyond,
// InitialTooLarge.
class InitialLimit {
 public:
  explicit InitialLimit(std::int64_t bytes);
  ~InitialLimit();
  InitialLimit(const InitialLimit&) = delete;
  InitialLimit& operator=(const InitialLimit&) = delete;

  static std::int64_t left();  // bytes, without a limit the largest number

 private:
  std::int64_t outer_;
};
struct InitialTooLarge : std::length_error {
  using std::length_error::length_error;
};

// While it lives, this thread draws no initial values, or does so again: what they would be is
// written over, by those of a checkpoint.
class InitialLeftOut {
 public:
  explicit InitialLeftOut(bool is_left_out = true);
  ~InitialLeftOut();
  InitialLeftOut(const InitialLeftOut&) = delete;
  InitialLeftOut& operator=(const InitialLeftOut&) = delete;

 private:
  bool outer_;
};

// While it lives, initial values that this thread makes are rehearsed (autograd/rehearsal.hpp): a
// model of any size has its shapes.
class InitialRehearsed {
 public:
  InitialRehearsed();
  ~InitialRehearsed();
  InitialRehearsed(const InitialRehearsed&) = delete;
  InitialRehearsed& operator=(const InitialRehearsed&) = delete;

 private:
  bool outer_;
};

Array normal(const Shape& shape, double standard_deviation, Random& init);
Array uniform(const Shape& shape, double bound, Random& init);  // in [-bound, bound)

}  // namespace tapestry
