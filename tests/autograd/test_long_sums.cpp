#include <doctest/doctest.h>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "tests/support/arrays.hpp"

// Sums of so many numbers that one running sum would lose them: 0.1 is added exactly, but for a
// few units in the last place.
namespace tapestry {
namespace {

constexpr double tenth = 0.1f;

Array tenths(const Shape& shape) { return Array::full(shape, 0.1); }

// The largest relative error of elements that should all be `wanted`.
double error_of(const Array& found, double wanted) {
  double worst = 0;
  for (const double value : doubles(found))
    worst = std::max(worst, std::isnan(value) ? infinity : std::abs(value / wanted - 1));
  return worst;
}

TEST_SUITE_BEGIN("ops");

TEST_CASE("bug: the mean of twenty million numbers was off by a hundredth") {
  const Array x = tenths({20'000'000});
  const int threads = num_threads();
  const Array average = mean(x).value(), total = sum(x).value();
  CHECK(error_of(average, tenth) < 1e-5);
  CHECK(error_of(total, 2e7 * tenth) < 1e-5);
  set_num_threads(1);
  CHECK(same_bits(mean(x).value(), average));
  set_num_threads(3);
  CHECK(same_bits(sum(x).value(), total));
  set_num_threads(threads);
}

TEST_CASE("bug: long axes, rows and columns, were summed in one run") {
  constexpr std::int64_t n = 1'000'000;
  CHECK(error_of(sum(tenths({n, 3}), {0}).value(), n * tenth) < 1e-5);
  CHECK(error_of(sum(tenths({3, n}), {1}).value(), n * tenth) < 1e-5);
  CHECK(error_of(sum(tenths({2, n, 2}), {1}).value(), n * tenth) < 1e-5);
  CHECK(error_of(sum_to(tenths({n, 5}), {1, 5}), n * tenth) < 1e-5);  // of a broadcast, backwards
  CHECK(sum_all(tenths({n})) == doctest::Approx(n * tenth).epsilon(1e-12));
  CHECK(sum_of_squares(tenths({n})) == doctest::Approx(n * tenth * tenth).epsilon(1e-12));
}

TEST_CASE("bug: long segments, rows of a softmax and products were summed in one run") {
  constexpr std::int64_t n = 1'000'000;
  const Array ends = ints({0, n}, {2});
  CHECK(error_of(segment_sum(tenths({n, 3}), ends).value(), n * tenth) < 1e-5);
  CHECK(error_of(segment_mean(tenths({n, 3}), ends).value(), tenth) < 1e-5);
  CHECK(error_of(segment_softmax(tenths({n, 3}), ends).value(), 1.0 / n) < 1e-5);
  CHECK(error_of(softmax(tenths({1, n})).value(), 1.0 / n) < 1e-5);
  CHECK(error_of(log_softmax(tenths({1, n})).value(), -std::log(double(n))) < 1e-6);
  const Array ones = Array::full({1, n}, 1);
  CHECK(error_of(linear(tenths({1, n}), ones).value(), n * tenth) < 1e-5);
  CHECK(error_of(linear(tenths({1, n}), Array::full({5, n}, 1)).value(), n * tenth) < 1e-5);
  // The sums of blocks of the inner dimension are added one after the other: some 4,000 additions.
  CHECK(error_of(matmul(tenths({20, n}), Array::full({n, 1}, 1)).value(), n * tenth) < 1e-4);
  const Array unit = unit_rows(tenths({1, n})).value();
  CHECK(error_of(unit, 1e-3) < 1e-5);
}

TEST_CASE("bug: a token or a node met often gathered its gradient in one run") {
  constexpr std::int64_t n = 1'000'000;
  const Array tokens = ints(std::vector<std::int32_t>(n, 1), {n});
  const Function pick = [&](In in) { return embedding(in[0], tokens); };
  const Array by_table = run(pick, {Array::zeros({2, 3})}, f32, tenths({n, 3})).gradients[0];
  CHECK(by_table.values<float>()[0] == 0);
  CHECK(by_table.values<float>()[3] == doctest::Approx(n * tenth).epsilon(1e-5));

  const Function norm = [](In in) { return layer_norm(in[0], in[1], in[2]); };
  const Outcome outcome =
      run(norm, {Array::zeros({n, 2}), row({1, 1}), row({0, 0})}, f32, tenths({n, 2}));
  CHECK(error_of(outcome.gradients[2], n * tenth) < 1e-5);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
