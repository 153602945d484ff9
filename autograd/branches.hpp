#pragma once

#include <functional>
#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

// The pieces that piecewise ops, such as relu and max, are in at one point. A difference whose
// steps cross a kink mixes two pieces, but the tape differentiates the point's own: f held to them
// is smooth, and has the tape's gradient there. Of this thread alone.
class Branches {
 public:
  // Runs f and notes in which pieces its ops are.
  explicit Branches(const std::function<Tensor()>& f);

  // f, whose ops stay in the noted pieces. Throws std::invalid_argument where it calls other ops.
  Tensor hold(const std::function<Tensor()>& f);

  std::int64_t held() const { return held_; }  // elements so far that had left their piece

  // For ops. The one that notes or holds now, or null.
  static Branches* current();
  // The noted pieces, where an op has left them for `taken`; nothing where it has not.
  Array settle(const Array& taken);

 private:
  Tensor run(const std::function<Tensor()>& f);

  std::vector<Array> noted_;  // an array an op, in the order of the calls
  std::size_t next_ = 0;
  bool noting_ = true;
  std::int64_t held_ = 0;
};

// Piecewise ops end here: y, unless a gradient check holds them. taken() tells in which piece each
// element is, and value(pieces) computes y by given ones; both need no tape.
template <class Taken, class Value>
Tensor in_held_branches(const Tensor& y, Taken taken, Value value) {
  Branches* const branches = Branches::current();
  if (!branches) [[likely]]
    return y;
  const Array pieces = branches->settle(taken());
  return pieces.empty() ? y : Tensor(value(pieces));
}

}  // namespace tapestry
