#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "autograd/kernels/matmul.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "autograd/sanitizer.hpp"
#include "tests/support/arrays.hpp"

// The matrix engine, against plain sums in double; and products whose numbers of rows differ from
// step to step, as those of graphs and of sentences do.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("matmul");

// A forward and a backward pass of linear (rows, width) -> (rows, width).
Outcome pass(std::int64_t rows, std::int64_t width, DType dtype = f32) {
  const Array x = normal({rows, width}, 1, dtype), weight = normal({width, width}, 2, dtype);
  return run([](In in) { return linear(in[0], in[1]); }, {x, weight}, dtype,
             normal({rows, width}, 3, dtype));
}

// C of operands drawn for the shape, and what plain sums make of them.
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

  Array expected(bool with_bias) const {
    const auto [x, y, start, row] = std::tuple(doubles(a), doubles(b), doubles(c), doubles(bias));
    const auto [m, n, k] = std::tuple(matmul.m, matmul.n, matmul.k);
    Array sums({m, n}, f64);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = with_bias ? row[j] : matmul.accumulate ? start[i * n + j] : 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += x[matmul.transpose_a ? p * m + i : i * k + p] *
                 y[matmul.transpose_b ? j * k + p : p * n + j];
        sums.mutable_values<double>()[i * n + j] = sum;
      }
    return sums;
  }

  Array multiply(bool with_bias) {
    Array into = c.clone();
    multiply_matrices(matmul,
                      {{a.raw(), b.raw(), into.mutable_raw(), with_bias ? bias.raw() : nullptr}});
    return into;
  }
};

TEST_CASE("matmul: tiles, their edges and blocks of terms equal plain sums") {
  const std::tuple<std::int64_t, std::int64_t, std::int64_t> shapes[] = {
      {1, 1, 1},    {1, 70, 9},    {2, 3, 4},      {5, 15, 17},   {13, 16, 192}, {14, 17, 193},
      {15, 31, 64}, {28, 32, 400}, {29, 33, 1},    {6, 8, 385},   {7, 9, 16},    {12, 24, 15},
      {113, 65, 7}, {3, 1100, 20}, {20, 40, 1100}, {57, 300, 100}};
  for (const auto& [m, n, k] : shapes)
    for (const DType dtype : {f32, f64})
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          CAPTURE(transpose_a);
          CAPTURE(transpose_b);
          Matmul shape{.m = m, .n = n, .k = k};
          shape.transpose_a = transpose_a, shape.transpose_b = transpose_b;
          const double tolerance = (dtype == f64 ? 1e-14 : 1e-6) * std::sqrt(k);
          Product product(shape, dtype);
          CHECK(distance(product.multiply(false), product.expected(false)) < tolerance);
          CHECK(distance(product.multiply(true), product.expected(true)) < tolerance);
          product.matmul.accumulate = true;
          CHECK(distance(product.multiply(false), product.expected(false)) < tolerance);
        }
}

// So the bits depend neither on the cut nor on the threads.
TEST_CASE("matmul: an element has the same bits, whatever else is computed") {
  const std::int64_t m = 61, n = 149, k = 1003;
  Product whole({.m = m, .n = n, .k = k, .transpose_b = true}, f32);
  const Array c = whole.multiply(false);
  for (const auto& [i, j, rows, columns] :
       {std::array<std::int64_t, 4>{3, 5, 40, 100}, {60, 0, 1, 149}, {0, 148, 61, 1}}) {
    const Matmul part{.m = rows, .n = columns, .k = k, .transpose_b = true};
    Array found({rows, columns}, f32);
    multiply_packed(part,
                    {whole.a.raw() + i * k * 4, whole.b.raw() + j * k * 4, found.mutable_raw()});
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        CHECK(found.values<float>()[row * columns + column] ==
              c.values<float>()[(i + row) * n + j + column]);
  }
}

TEST_CASE("matmul: each of a few rows times stored rows has the bits that it has alone") {
  for (const DType dtype : {f32, f64})
    for (const auto& [n, k] : {std::pair{149, 1003}, {3, 70}, {64, 20000}, {33, 5}})
      for (const bool with_bias : {false, true}) {
        Product alone({.m = 1, .n = n, .k = k, .transpose_b = true}, dtype);
        const Array row = alone.multiply(with_bias);
        for (std::int64_t m = 2; m <= 16; ++m) {
          CAPTURE(m);
          Product few({.m = m, .n = n, .k = k, .transpose_b = true}, dtype);
          few.b = alone.b, few.bias = alone.bias;
          for (std::int64_t i = 0; i < m; ++i)  // the same row of A, and of C to add to
            few.a.part(i * k, (i + 1) * k).copy_from(alone.a);
          const Array c = few.multiply(with_bias);
          for (std::int64_t i = 0; i < m; ++i)
            CHECK(same_bits(c.part(i * n, (i + 1) * n), row.reshaped({n})));
        }
      }
}

TEST_CASE("matmul: any number of rows has the right value and gradients") {
  for (const std::int64_t rows : {1, 15, 16, 17, 31, 33, 100, 1023, 1025, 2049, 2100, 5000})
    for (const std::int64_t width : {5, 32}) {
      CAPTURE(rows);
      const Outcome found = pass(rows, width), wanted = pass(rows, width, f64);
      CHECK(distance(found.y, wanted.y) < 1e-5);
      for (int i = 0; i < 2; ++i) CHECK(distance(found.gradients[i], wanted.gradients[i]) < 1e-4);
    }
}

#if !TAPESTRY_ADDRESS_SANITIZER && !TAPESTRY_THREAD_SANITIZER  // which take memory and time

double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

TEST_CASE("bug: what a product of a shape needs was kept for ever") {
  const int threads = num_threads();
  set_num_threads(1);
  const auto multiply = [](std::int64_t columns) {  // no two of one shape
    matmul(Array::zeros({3, 7}), Array::zeros({7, columns}));
  };
  for (std::int64_t columns = 20; columns < 1500; ++columns) multiply(columns);
  const double before = resident_megabytes();
  for (std::int64_t columns = 1500; columns < 3000; ++columns) multiply(columns);
  CHECK(resident_megabytes() - before < 20);
  set_num_threads(threads);
}

#endif

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
