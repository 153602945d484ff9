#pragma once

#include <xtensor/xadapt.hpp>

#include "autograd/array.hpp"

// xtensor's view of an array's memory. Heavy: for .cpp files only.
namespace tapestry {

template <class T>
auto xtensor_view(const Array& array) {
  const std::vector<std::size_t> shape(array.shape().begin(), array.shape().end());
  return xt::adapt(array.values<T>().data(), array.size(), xt::no_ownership(), shape);
}

template <class T>
auto xtensor_view(Array& array) {
  const std::vector<std::size_t> shape(array.shape().begin(), array.shape().end());
  return xt::adapt(array.mutable_values<T>().data(), array.size(), xt::no_ownership(), shape);
}

}  // namespace tapestry
