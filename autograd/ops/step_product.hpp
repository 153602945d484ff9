#pragma once

#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/rows.hpp"

namespace tapestry {

// The product of each step of a recurrence, with the memory of its operands: a row for each
// example, which the step before writes.
class StepProduct final {
 public:
  StepProduct(const Matmul& matmul, const Array& weight, std::int64_t steps)
      : matrix_(matmul, weight.raw(), steps),
        a_({matmul.m, matrix_.row_of_a()}, matmul.dtype),
        c_({matmul.m, matrix_.row_of_c()}, matmul.dtype) {}

  void multiply() { matrix_.multiply(a_.raw(), c_.mutable_raw()); }

  // Return the row of an example in A (k elements) and in C (n elements).
  template <class T>
  T* input(std::int64_t row) {
    return reinterpret_cast<T*>(a_.mutable_raw()) + row * matrix_.row_of_a();
  }
  template <class T>
  T* output(std::int64_t row) {
    return reinterpret_cast<T*>(c_.mutable_raw()) + row * matrix_.row_of_c();
  }

 private:
  PackedMatrix matrix_;
  Array a_, c_;
};

}  // namespace tapestry
