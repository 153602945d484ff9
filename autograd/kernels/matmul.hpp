#pragma once

#include "autograd/array.hpp"

namespace tapestry {

// One matrix product C (m, n) = A (m, k) · B (k, n), all row-major and dense as stored.
struct Matmul {
  DType dtype = DType::float32;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored as (k, m)
  bool transpose_b = false;  // B is stored as (n, k)
  bool accumulate = false;   // add to C instead of writing it
};

// One product of a batch; `bias` (n), added to every row, may be null.
struct MatmulOperands {
  const std::byte* a;
  const std::byte* b;
  std::byte* c;
  const std::byte* bias = nullptr;
};

// The matrix engine. Each product is cut into fixed blocks of C, each computed by one thread (by
// oneDNN for float32, by OpenBLAS for float64), so the bits do not depend on the thread count.
void run(const Matmul& matmul, const std::vector<MatmulOperands>& batch);

// "oneDNN 2.6.3, OpenBLAS ..."
std::string matrix_engine_name();

// float32 through OpenBLAS as well: for machines without oneDNN, and for tests.
void set_use_onednn(bool use);

}  // namespace tapestry
