#pragma once

#include <string>

#include "autograd/tensor.hpp"

namespace tapestry {

// What a parameter is for: optimisers decay weights and, unless asked, nothing else. A fixed one
// belongs to the model and its checkpoints, but is a constant: it gets no gradient and no update,
// and ops keep nothing for it.
enum class Role { weight, bias, norm, embedding, fixed };

// A named leaf with storage of its own, which an optimiser updates in place.
struct Parameter {
  Parameter(Array initial, Role purpose)
      : tensor(leaf(std::move(initial), purpose)), role(purpose) {}

  operator const Tensor&() const { return tensor; }
  Array value() const { return tensor.value(); }  // a handle to the storage: writing it updates
  void convert(DType dtype) { tensor = leaf(tensor.value().to(dtype), role); }
  void fix() { tensor = leaf(tensor.value(), role = Role::fixed); }

  std::string name;  // dotted, from the root module: "blocks.0.attention.query.weight"
  Tensor tensor;
  Role role;

 private:
  static Tensor leaf(Array value, Role role) {
    return role == Role::fixed ? Tensor(std::move(value)) : Tensor::variable(std::move(value));
  }
};

}  // namespace tapestry
