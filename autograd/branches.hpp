#pragma once

#include <functional>
#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

// The branches that piecewise ops (relu, max) take at a point, recorded so that a gradient check
// can fix them. A finite difference across a kink mixes two branches, while the tape differentiates
// one: with its branches fixed, f is smooth and has the tape's gradient. Acts on this thread only.
class Branches {
 public:
  // Runs f and records the branches of its ops.
  explicit Branches(const std::function<Tensor()>& f);

  // Returns f() with the recorded branches. Throws std::invalid_argument if the branches of f's
  // piecewise ops differ from the recorded ones in number, shape or dtype.
  Tensor hold(const std::function<Tensor()>& f);

  std::int64_t held() const { return held_; }  // number of elements kept in their branch so far

  // Returns the object that records or holds branches on this thread, or null. Used by ops.
  static Branches* current();
  // Records `taken` and returns an empty array, or, in hold(), returns the recorded branches if
  // `taken` differs from them, otherwise an empty array. Throws std::invalid_argument for an op
  // that was not recorded. Used by ops.
  Array settle(const Array& taken);

 private:
  Tensor run(const std::function<Tensor()>& f);

  std::vector<Array> noted_;  // one array for each op, in the order of the calls
  std::size_t next_ = 0;
  bool noting_ = true;
  std::int64_t held_ = 0;
};

// Returns the result of a piecewise op: y, or `value(branches)` if a gradient check fixes its
// branches. taken() returns the branch of each element.
template <class Taken, class Value>
Tensor in_held_branches(const Tensor& y, Taken taken, Value value) {
  Branches* const branches = Branches::current();
  if (!branches) [[likely]]
    return y;
  const Array pieces = branches->settle(taken());
  return pieces.empty() ? y : Tensor(value(pieces));
}

}  // namespace tapestry
