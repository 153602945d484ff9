#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "autograd/sanitizer.hpp"
#include "tests/support/arrays.hpp"

// Products of matrices whose numbers of rows differ from step to step, as those of graphs and of
// sentences do.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("matmul");

// A forward and a backward pass of linear (rows, width) -> (rows, width).
Outcome pass(std::int64_t rows, std::int64_t width, DType dtype = f32) {
  const Array x = normal({rows, width}, 1, dtype), weight = normal({width, width}, 2, dtype);
  return run([](In in) { return linear(in[0], in[1]); }, {x, weight}, dtype,
             normal({rows, width}, 3, dtype));
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

TEST_CASE("bug: rows whose number differs at each step made a layer several times slower") {
  const Tensor weight = Tensor::variable(Array::zeros({32, 32}));
  const auto seconds = [&](std::int64_t first, std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t rows = first, i = 0; i < 60; rows += step, ++i) {
      Tape tape;
      const Tensor x = Tensor::variable(Array::zeros({rows, 32}));
      tape.backward(linear(x, weight), Array::zeros({rows, 32}));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double one_shape = infinity, ragged = infinity;
  for (int attempt = 0; attempt < 3; ++attempt) {
    one_shape = std::min(one_shape, seconds(1200, 0));
    ragged = std::min(ragged, seconds(1100 + 60 * attempt, 1));
  }
  CHECK(ragged < 3 * one_shape);
}

#endif

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
