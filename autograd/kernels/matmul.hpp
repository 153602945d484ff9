#pragma once

#include <memory>
#include <string>

#include "autograd/array.hpp"
#include "autograd/restore.hpp"

namespace tapestry {

// A matrix product C (m, n) = A (m, k) · B (k, n) of contiguous row-major matrices.
struct Matmul {
  DType dtype = DType::float32;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored as (k, m)
  bool transpose_b = false;  // B is stored as (n, k)
  bool accumulate = false;   // adds to C instead of overwriting it
};

// The operands of one product. `bias` (n) is added to every row; null: none, as with `accumulate`.
struct MatmulOperands {
  const std::byte* a;
  const std::byte* b;
  std::byte* c;
  const std::byte* bias = nullptr;
};

// Products, unless rounded to bfloat16, of at most this many rows of an untransposed A (or of one
// row) with a transposed B read B without packing it, because most of their time is spent on
// reading B, which packing does twice.
inline constexpr std::int64_t few_rows = 16;

// Computes a batch of products. The order in which the terms of an element are added depends only
// on k, or, for the products that few_rows describes, on k and n. So the bits depend neither on the
// number of threads nor on the other rows.
void multiply_matrices(const Matmul& matmul, const std::vector<MatmulOperands>& batch);

// Returns whether multiply_matrices() computes this product by multiply_packed() on this thread.
bool reads_panels(const Matmul& matmul);

// The right-hand matrix B of several products of one shape, which is packed once for all of them.
// The products have the bits of multiply_matrices(). Where that reads B itself (reads_panels() is
// false), or there is only one product, nothing is packed. B must outlive the object.
class PackedMatrix final {
 public:
  PackedMatrix(const Matmul& matmul, const std::byte* b, std::int64_t products);

  // Return the number of elements between the beginnings of two rows of A and of C, at least k and
  // n. The elements of C beyond n are written, too.
  std::int64_t row_of_a() const { return row_of_a_; }
  std::int64_t row_of_c() const { return row_of_c_; }
  void multiply(const std::byte* a, std::byte* c) const;

 private:
  Matmul matmul_;
  const std::byte* b_;
  std::int64_t row_of_a_, row_of_c_;
  std::shared_ptr<std::byte[]> panels_{};  // null if B is not packed
};

// Computes a float32 product of at most few_rows rows of A with a transposed B of q8_0. It has the
// bits of multiply_matrices() with B converted to float32; it does not round A to bfloat16.
void multiply_q8_0(const Matmul& matmul, const MatmulOperands& operands);

// The type that float32 operands are rounded to before a product; sums are always float32. Products
// of a single row are not rounded. Each thread sets the precision of its own products.
enum class MatmulPrecision { float32, bfloat16 };
void set_matmul_precision(MatmulPrecision precision);
MatmulPrecision matmul_precision();

// A guard that sets the precision of this thread's matrix products.
class UseMatmulPrecision final : RestoreSetting<MatmulPrecision> {
 public:
  explicit UseMatmulPrecision(MatmulPrecision precision)
      : RestoreSetting(set_matmul_precision, precision, matmul_precision()) {}
};

// Returns whether there are bfloat16 products (AVX512-BF16 or AMX). Otherwise rounded operands are
// multiplied in float32, which is not faster; then subnormal numbers do not count as 0.
bool has_bfloat16_products();

// Returns the backends of matrix products: "14x32 tiles, bfloat16 by AMX".
std::string backend_names();

// --- the backends of multiply_matrices ---

// Computes one product, float32 or float64, with packed operands (Goto & van de Geijn 2008,
// "Anatomy of High-Performance Matrix Multiplication"). Each element is a sum of blocks of at most
// 384 terms.
void multiply_packed(const Matmul& matmul, const MatmulOperands& operands);

std::string tile_name();  // returns the size of float32 tiles: "14x32 tiles"

// Computes one float32 product of operands rounded to bfloat16. The order in which the terms of an
// element are added depends on the instructions only: AVX512-BF16 and AMX add them to one sum.
void multiply_rounded(const Matmul& matmul, const MatmulOperands& operands);

std::string bfloat16_name();  // returns the instructions for such products: "AMX", or ""

}  // namespace tapestry
