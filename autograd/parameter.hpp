#pragma once

#include <string>

#include "autograd/tensor.hpp"

namespace tapestry {

// What a parameter is for: optimisers decay weights and, unless asked, nothing else.
enum class Role { weight, bias, norm, embedding };

// A named leaf with storage of its own, which an optimiser updates in place.
struct Parameter {
  Parameter(Array initial, Role purpose)
      : tensor(Tensor::variable(std::move(initial))), role(purpose) {}

  operator const Tensor&() const { return tensor; }
  Array value() const { return tensor.value(); }  // a handle to the storage: writing it updates
  void convert(DType dtype) { tensor = Tensor::variable(tensor.value().to(dtype)); }

  std::string name;  // dotted, from the root module: "blocks.0.attention.query.weight"
  Tensor tensor;
  Role role;
};

}  // namespace tapestry
