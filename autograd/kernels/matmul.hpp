#pragma once

#include "autograd/array.hpp"
#include "autograd/restore.hpp"

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

// So few rows are multiplied by the stored rows of a transposed B where these stand: the time goes
// into reading B, which packing would read twice.
inline constexpr std::int64_t few_rows = 16;

// The matrix engine. The order in which an element's products are added depends on k alone, or, for
// few rows of A times a transposed B, on k and n: the bits depend neither on the thread count nor
// on which other rows are multiplied.
void multiply_matrices(const Matmul& matmul, const std::vector<MatmulOperands>& batch);

// What float32 operands are rounded to before they are multiplied; sums are float32 in any case.
// A single row times a matrix is not rounded: it is bound by reading the matrix. Each thread says
// it of the products that it asks for.
enum class MatmulPrecision { float32, bfloat16 };
void set_matmul_precision(MatmulPrecision precision);
MatmulPrecision matmul_precision();

// While it lives, this thread's products have this precision.
class UseMatmulPrecision final : RestoreSetting<MatmulPrecision> {
 public:
  explicit UseMatmulPrecision(MatmulPrecision precision)
      : RestoreSetting(set_matmul_precision, precision, matmul_precision()) {}
};

// Whether this processor multiplies bfloat16 (AVX512-BF16 or AMX, by oneDNN). Where it does not,
// rounded operands are multiplied in float32: the same products, and no faster.
bool has_bfloat16_products();

// What multiplies matrices here: "14x32 tiles, oneDNN 2.6.3 (AMX)".
std::string backend_names();

}  // namespace tapestry
