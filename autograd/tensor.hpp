#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// A computed, immutable array with an id by which the tape finds its gradient. An id of 0 is a
// constant, which gets no gradient. Copying a tensor copies a handle.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Array value) : value_(std::move(value)) {}  // a constant; implicit on purpose
  static Tensor variable(Array value);               // returns a leaf that gets a gradient

  const Array& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  std::int64_t dim(int axis) const { return value_.dim(axis); }
  int rank() const { return value_.rank(); }
  std::int64_t size() const { return value_.size(); }
  DType dtype() const { return value_.dtype(); }
  // Returns the value of the only element. Throws std::invalid_argument unless there is one.
  double item() const;

  std::uint64_t id() const { return id_; }

 private:
  friend class Tape;
  Array value_;
  std::uint64_t id_ = 0;
  std::uint64_t tape_ = 0;  // number of the tape that recorded it; 0: a leaf or a constant
};

// The role of a parameter. A head is the weight of a model's last linear map, which computes its
// outputs. Optimizers decay weights and heads, and other roles only if asked to. A fixed parameter
// belongs to the model and its checkpoints, but is a constant without gradient.
enum class Role { weight, head, bias, norm, embedding, fixed };

inline bool is_weight(Role role) { return role == Role::weight || role == Role::head; }

// A named tensor whose memory an optimizer updates in place.
struct Parameter {
  Parameter(Array initial, Role purpose)
      : tensor(leaf(std::move(initial), purpose)), role(purpose) {}

  operator const Tensor&() const { return tensor; }
  Array value() const { return tensor.value(); }  // shares memory: writing it changes the parameter
  // Convert the values, or make the parameter fixed. Gradients from before belong to the old
  // tensor. Throw std::invalid_argument between a forward pass with the parameter and backward().
  void convert(DType dtype);
  void fix();

  std::string name;  // dotted path from the root module: "blocks.0.attention.query.weight"
  Tensor tensor;
  Role role;

 private:
  static Tensor leaf(Array value, Role role) {
    return role == Role::fixed ? Tensor(std::move(value)) : Tensor::variable(std::move(value));
  }
};

// Returns the parameters without those that share the memory of an earlier one: shared parameters
// are one. Throws std::invalid_argument for two that share memory and have separate gradients.
std::vector<Parameter*> distinct_parameters(std::vector<Parameter*> parameters);

}  // namespace tapestry
