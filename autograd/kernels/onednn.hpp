#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "autograd/kernels/bfloat16.hpp"

namespace tapestry {

// The product of one block of C; row_a, row_b and row_c are the distances between stored rows.
struct Block {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  std::int64_t row_a, row_b, row_c;
  bool bfloat16 = false;  // the elements of A and B, but never those of C
  auto operator<=>(const Block&) const = default;
};

// oneDNN, where the build has it: see multiply_matrices.
namespace onednn {

// False, and nothing done, where it is not to compute such a block: it is not built in or switched
// off, OpenBLAS is faster, or it has no such product.
bool multiply(const Block& block, const float* a, const float* b, float* c);
bool multiply(const Block& block, const BFloat16* a, const BFloat16* b, float* c);

// The number of terms, k or a few more, that it is better to give it in a float32 product Aᵀ B.
std::int64_t round_up_terms(std::int64_t k);

void set_use(bool use);
bool has_bfloat16_products();  // in the processor
std::string name();            // "oneDNN 2.6.3 (AVX-512)"; empty without it

}  // namespace onednn
}  // namespace tapestry
