#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "autograd/kernels/bfloat16_tiles.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"

// Tests the kernels of matrix products, also with numbers of rows that change from step to step.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("matmul");

// Runs forward and backward passes of linear (rows, width) -> (rows, width).
Outcome pass(std::int64_t rows, std::int64_t width, DType dtype = f32) {
  const Array x = normal({rows, width}, 1, dtype), weight = normal({width, width}, 2, dtype);
  return run([](In in) { return linear(in[0], in[1]); }, {x, weight}, dtype,
             normal({rows, width}, 3, dtype));
}

// Returns random operands for the shape.
struct Product {
  Matmul matmul;
  Array a, b, c, bias;

  Product(const Matmul& shape, DType dtype)
      : matmul(shape),
        a(normal({shape.m * shape.k}, 1, dtype)),
        b(normal({shape.k * shape.n}, 2, dtype)),
        c(normal({shape.m, shape.n}, 3, dtype)),
        bias(normal({shape.n}, 4, dtype)) {
    matmul.dtype = dtype;
  }

  Array multiply(bool with_bias) const {
    Array into = c.clone();
    multiply_matrices(matmul,
                      {{a.raw(), b.raw(), into.mutable_raw(), with_bias ? bias.raw() : nullptr}});
    return into;
  }
};

// Returns the product by a packed B, of which there are two.
Array multiply_packed_once(const Product& product) {
  const Matmul& matmul = product.matmul;
  const PackedMatrix packed(matmul, product.b.raw(), 2);
  const std::int64_t row_of_a = packed.row_of_a(), row_of_c = packed.row_of_c();
  Array a = Array::full({matmul.m, row_of_a}, 7, matmul.dtype),
        c = Array::full({matmul.m, row_of_c}, 7, matmul.dtype), result = product.c.clone();
  const auto copy = [&](const Array& from, std::int64_t row_from, Array& to, std::int64_t row_to) {
    const auto bytes = size_of(matmul.dtype);
    for (std::int64_t i = 0; i < matmul.m; ++i)
      std::copy_n(from.raw() + i * row_from * bytes, std::min(row_from, row_to) * bytes,
                  to.mutable_raw() + i * row_to * bytes);
  };
  copy(product.a, matmul.k, a, row_of_a);
  copy(product.c, matmul.n, c, row_of_c);
  packed.multiply(a.raw(), c.mutable_raw());
  copy(c, row_of_c, result, matmul.n);
  return result;
}

TEST_CASE("matmul: products by a matrix that is packed once have the bits of others") {
  for (const DType dtype : {f32, f64})
    for (const bool transpose_b : {false, true})
      for (const bool accumulate : {false, true})
        for (const std::int64_t m : {1, 5, 16, 17, 29, 32, 43})
          for (const auto& [n, k] :
               {std::pair{1, 1}, {37, 300}, {64, 384}, {131, 900}, {96, 385}}) {
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            const Matmul shape{
                .m = m, .n = n, .k = k, .transpose_b = transpose_b, .accumulate = accumulate};
            Product product(shape, dtype);
            CHECK(same_bits(multiply_packed_once(product), product.multiply(false)));
          }
}

// --- products of integers, which are exact in any order of the terms ---

// Each product uses the first rows and columns of these operands, so that one loop gives the
// expected values of all products of a depth.
class Products {
 public:
  Products(std::int64_t m, std::int64_t n, std::int64_t most_k)
      : m_(m), n_(n), a_(most_k * m), b_(most_k * n) {
    for (std::vector<double>* values : {&a_, &b_}) {
      const Array drawn = integers({std::ssize(*values)}, values == &a_);
      std::ranges::copy(drawn.values<double>(), values->begin());
    }
  }

  // Computes the product of all rows and columns for this depth.
  void set_depth(std::int64_t k) {
    k_ = k;
    c_.assign(m_ * n_, 0);
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t i = 0; i < m_; ++i)
        for (std::int64_t j = 0; j < n_; ++j) c_[i * n_ + j] += a_[p * m_ + i] * b_[p * n_ + j];
  }

  enum Start { nothing, bias, sum };  // the product is added to it

  // Returns whether the product of the first rows and columns has the bits of the loop.
  template <class T>
  bool exact(Matmul matmul, Start start) const {
    const auto [m, n] = std::pair(matmul.m, matmul.n);
    matmul.dtype = dtype_of<T>, matmul.k = k_, matmul.accumulate = start == sum;
    std::vector<T> a(m * k_), b(k_ * n), row(n), c(m * n, T(7));
    for (std::int64_t p = 0; p < k_; ++p) {
      for (std::int64_t i = 0; i < m; ++i)
        a[matmul.transpose_a ? p * m + i : i * k_ + p] = static_cast<T>(a_[p * m_ + i]);
      for (std::int64_t j = 0; j < n; ++j)
        b[matmul.transpose_b ? j * k_ + p : p * n + j] = static_cast<T>(b_[p * n_ + j]);
    }
    std::iota(row.begin(), row.end(), T(1));
    const auto raw = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
    multiply_matrices(matmul, {{raw(a), raw(b), raw(c), start == bias ? raw(row) : nullptr}});
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const T before = start == bias ? row[j] : T(start == sum ? 7 : 0);
        if (c[i * n + j] != static_cast<T>(c_[i * n_ + j]) + before) return false;
      }
    return true;
  }

 private:
  std::int64_t m_, n_, k_ = 0;
  std::vector<double> a_, b_, c_;  // (k, m), (k, n), (m, n)
};

// Computes the product in all layouts, added to `start`.
void check_layouts(const Products& products, std::int64_t m, std::int64_t n, int start) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true}) {
      Matmul matmul{.m = m, .n = n};
      matmul.transpose_a = transpose_a, matmul.transpose_b = transpose_b;
      const auto next = [&] { return Products::Start(start++ % 3); };
      CHECK_MESSAGE(products.exact<float>(matmul, next()), "float32 ", m, " x ", n);
      CHECK_MESSAGE(products.exact<double>(matmul, next()), "float64 ", m, " x ", n);
    }
}

TEST_CASE("integers: matrix products of all sizes near a tile's are exact") {
  Products products(43, 65, 385);
  int start = 0;
  for (const std::int64_t k : {0, 1, 2, 7, 8, 9, 16, 17, 192, 193, 385}) {
    CAPTURE(k);
    products.set_depth(k);
    for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 28, 29, 43})
      for (const std::int64_t n :
           {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65})
        check_layouts(products, m, n, ++start);
  }
}

TEST_CASE("integers: products that are divided among threads and blocks are exact") {
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size& size : {Size{300, 200, 100},
                           {14, 70, 15'000},
                           {530, 20, 600},
                           {61, 1030, 40},
                           {1030, 33, 64},
                           {16, 700, 200},
                           {1, 3000, 700}}) {
    CAPTURE(size.k);
    Products products(size.m, size.n, size.k);
    products.set_depth(size.k);
    for (const MatmulPrecision precision : {MatmulPrecision::float32, MatmulPrecision::bfloat16})
      with_threads({1, 2, 3}, [&](int threads) {
        CAPTURE(threads);
        const UseMatmulPrecision use(precision);
        check_layouts(products, size.m, size.n, threads);
      });
  }
}

TEST_CASE("integers: products of operands rounded to bfloat16, which holds them, are exact") {
  const UseMatmulPrecision rounded(MatmulPrecision::bfloat16);
  Products products(43, 65, 193);
  for (const std::int64_t k : {0, 1, 2, 17, 64, 193}) {
    CAPTURE(k);
    products.set_depth(k);
    int start = 0;
    for (const std::int64_t m : {1, 2, 7, 16, 17, 43})
      for (const std::int64_t n : {1, 2, 15, 16, 17, 33, 65})
        with_threads({1, 2}, [&](int) { check_layouts(products, m, n, ++start); });
  }
}

#ifdef __AVX512F__

// On a processor with AMX, products do not use the other instructions.
TEST_CASE("integers: a bfloat16 tile is exact by each of the processor's instructions") {
  if (bfloat16_instructions() == BFloat16Instructions::none) {
    CHECK(!has_bfloat16_products());
    return;
  }
  constexpr std::int64_t side = bfloat16_tile, depth = 75, blocks = 3;
  const Array a = integers({side, depth}, 1).to(f32), b = integers({depth, side}, 2).to(f32);
  const Array start = integers({side}, 3).to(f32);
  const Operand<float> rows_of_a{a.values<float>().data(), depth, 1};
  const Operand<float> columns_of_b{b.values<float>().data(), 1, side};
  std::vector<BFloat16> panel_of_a(side * blocks * square_terms), panel_of_b(panel_of_a.size());
  pack_bfloat16(rows_of_a, side, depth, SquareOrder::rows, panel_of_a.data());
  pack_bfloat16(columns_of_b, side, depth, SquareOrder::pairs, panel_of_b.data());
  const Array product = matmul(a, b).value();
  const auto check = [&](auto multiply) {
    Array c({side, side}, f32);
    multiply(blocks, panel_of_a.data(), panel_of_b.data(),
             Start<float>{start.values<float>().data(), 0}, c.mutable_values<float>().data(), side);
    bool exact = true;
    for (std::int64_t i = 0; i < side * side; ++i)
      exact &= c.values<float>()[i] == product.values<float>()[i] + start.values<float>()[i % side];
    CHECK(exact);
  };
  check(multiply_by_avx512);
  if (bfloat16_instructions() != BFloat16Instructions::amx) return;
  const UseTileRegisters tiles;
  check(multiply_by_amx);
}

#endif

// --- bits and accuracy ---

// So the bits do not depend on the number of threads.
TEST_CASE("matmul: the bits of an element do not depend on the other elements") {
  const std::int64_t m = 61, n = 149, k = 1503;
  Product whole({.m = m, .n = n, .k = k, .transpose_b = true}, f32);
  for (const MatmulPrecision precision : {MatmulPrecision::float32, MatmulPrecision::bfloat16}) {
    const UseMatmulPrecision use(precision);
    const auto multiply =
        precision == MatmulPrecision::bfloat16 ? multiply_rounded : multiply_packed;
    const Array c = whole.multiply(false);
    for (const auto& [i, j, rows, columns] :
         {std::array<std::int64_t, 4>{3, 5, 40, 100}, {60, 0, 1, 149}, {0, 148, 61, 1}}) {
      const Matmul part{.m = rows, .n = columns, .k = k, .transpose_b = true};
      Array found({rows, columns}, f32);
      multiply(part, {whole.a.raw() + i * k * 4, whole.b.raw() + j * k * 4, found.mutable_raw()});
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column)
          CHECK(found.values<float>()[row * columns + column] ==
                c.values<float>()[(i + row) * n + j + column]);
    }
  }
}

TEST_CASE("matmul: a row has the same bits alone and among a few rows") {
  for (const DType dtype : {f32, f64})
    for (const auto& [n, k] : {std::pair{149, 1003}, {3, 70}, {64, 20000}, {33, 5}})
      for (const bool with_bias : {false, true}) {
        Product alone({.m = 1, .n = n, .k = k, .transpose_b = true}, dtype);
        const Array row = alone.multiply(with_bias);
        for (std::int64_t m = 2; m <= 16; ++m) {
          CAPTURE(m);
          Product few = alone;
          few.matmul.m = m, few.a = Array({m * k}, dtype), few.c = Array::zeros({m, n}, dtype);
          for (std::int64_t i = 0; i < m; ++i)  // the same rows of A and C
            few.a.part(i * k, (i + 1) * k).copy_from(alone.a);
          const Array c = few.multiply(with_bias);
          for (std::int64_t i = 0; i < m; ++i)
            CHECK(same_bits(c.part(i * n, (i + 1) * n), row.reshaped({n})));
        }
      }
}

TEST_CASE("matmul: values and gradients are correct for any number of rows") {
  for (const std::int64_t rows : {1, 15, 16, 17, 31, 33, 100, 1023, 1025, 2049, 2100, 5000})
    for (const std::int64_t width : {5, 32}) {
      CAPTURE(rows);
      const Outcome found = pass(rows, width), wanted = pass(rows, width, f64);
      CHECK(distance(found.y, wanted.y) < 1e-5);
      for (int i = 0; i < 2; ++i) CHECK(distance(found.gradients[i], wanted.gradients[i]) < 1e-4);
    }
}

// Rounds to eight bits, so that products are exact, and have the same bits with and without fma.
template <class T>
void round_to_eight_bits(Array& array) {
  for (T& value : array.mutable_values<T>()) {
    int exponent = 0;
    const T fraction = std::frexp(value, &exponent);
    value = std::ldexp(std::round(fraction * 256), exponent - 8);
  }
}

// Returns C of Aᵀ B by the definition: sums of blocks of 384 terms, each added to the one before.
template <class T>
Array sums_of_blocks(const Product& product) {
  const Matmul& matmul = product.matmul;
  Array c = product.c.clone();
  const T* a = product.a.values<T>().data();
  const T* b = product.b.values<T>().data();
  for (std::int64_t i = 0; i < matmul.m; ++i)
    for (std::int64_t j = 0; j < matmul.n; ++j) {
      T& element = c.mutable_values<T>()[i * matmul.n + j];
      if (!matmul.accumulate) element = 0;
      for (std::int64_t first = 0; first < matmul.k; first += 384) {
        T sum = 0;
        for (std::int64_t p = first; p < std::min(matmul.k, first + 384); ++p)
          sum += a[p * matmul.m + i] * b[p * matmul.n + j];
        element += sum;
      }
    }
  return c;
}

// Threads divide the terms of such products, and some are computed as Bᵀ A.
TEST_CASE("matmul: small results of many terms are the sums of their blocks on any threads") {
  for (const auto& [m, n] : {std::pair{32, 4}, {4, 32}, {16, 16}, {7, 5}, {8, 3}, {64, 11}})
    for (const std::int64_t k : {383, 385, 3000})
      for (const bool accumulate : {false, true})
        with_threads({1, 2, 5}, [&](int) {
          CAPTURE(m);
          CAPTURE(k);
          const Matmul shape{.m = m, .n = n, .k = k, .transpose_a = true, .accumulate = accumulate};
          Product single(shape, f32), twice(shape, f64);
          for (Array Product::*operand : {&Product::a, &Product::b}) {
            round_to_eight_bits<float>(single.*operand);
            round_to_eight_bits<double>(twice.*operand);
          }
          CHECK(same_bits(single.multiply(false), sums_of_blocks<float>(single)));
          CHECK(same_bits(twice.multiply(false), sums_of_blocks<double>(twice)));
        });
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
