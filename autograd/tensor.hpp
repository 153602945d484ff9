#pragma once

#include <cstdint>

#include "autograd/array.hpp"

namespace tapestry {

// An evaluated, immutable value and, through its id, its place in a computation. An id of 0 is a
// constant: no gradient flows to it. Copying a tensor copies a handle.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Array value) : value_(std::move(value)) {}  // a constant; implicit on purpose
  static Tensor variable(Array value);               // a leaf that receives a gradient

  const Array& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  std::int64_t dim(int axis) const { return value_.dim(axis); }
  int rank() const { return value_.rank(); }
  std::int64_t size() const { return value_.size(); }
  DType dtype() const { return value_.dtype(); }
  double item() const;  // the value of a tensor of one element

  std::uint64_t id() const { return id_; }

 private:
  Array value_;
  std::uint64_t id_ = 0;
};

}  // namespace tapestry
