#include "autograd/branches.hpp"

#include "autograd/check.hpp"
#include "autograd/restore.hpp"

namespace tapestry {
namespace {

thread_local Branches* in_force = nullptr;

std::int64_t count_differences(const Array& a, const Array& b) {
  return dispatch(a.dtype(), [&]<class T>() {
    const auto x = a.values<T>(), y = b.values<T>();
    std::int64_t count = 0;
    for (std::size_t i = 0; i < x.size(); ++i) count += x[i] != y[i];
    return count;
  });
}

}  // namespace

Branches::Branches(const std::function<Tensor()>& f) {
  run(f);
  noting_ = false;
}

Tensor Branches::hold(const std::function<Tensor()>& f) {
  next_ = 0;
  const Tensor y = run(f);
  require(next_ == noted_.size(),
          "gradcheck: the function called {} piecewise ops; expected {}, as in its first call",
          next_, noted_.size());
  return y;
}

Tensor Branches::run(const std::function<Tensor()>& f) {
  const Restore<Branches*> scope(in_force, this);
  return f();
}

Branches* Branches::current() { return in_force; }

Array Branches::settle(const Array& taken) {
  if (noting_) {
    noted_.push_back(taken);
    return {};
  }
  require(next_ < noted_.size() && noted_[next_].shape() == taken.shape() &&
              noted_[next_].dtype() == taken.dtype(),
          "gradcheck: a piecewise op with branches {} was not part of the function's first call; "
          "expected the same ops in each call",
          taken);
  const Array& noted = noted_[next_++];
  const std::int64_t left = count_differences(noted, taken);
  held_ += left;
  return left > 0 ? noted : Array();
}

}  // namespace tapestry
