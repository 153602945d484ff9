#include <doctest/doctest.h>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "tests/support/arrays.hpp"

// Tests ops with numbers whose squares, products or exponentials overflow: the result is correct or
// not finite, but never a wrong finite number.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ops");

TEST_CASE("gelu: float32 is within 1e-6 of float64, and correct for large values and NaN") {
  std::vector<double> numbers{-0x1p90, -7, 0, 7, 0x1p90};
  for (double v = -6; v <= 6; v += 0.001) numbers.push_back(v);
  const Array x = row(numbers, f32);
  const auto value = doubles(gelu(x).value()), exact = doubles(gelu(x.to(f64)).value());
  double wrong = 0;
  for (std::size_t i = 5; i < numbers.size(); ++i)
    wrong = std::max(wrong, std::abs(value[i] - exact[i]));
  CHECK(wrong < 1e-6);
  for (std::size_t i = 0; i < 5; ++i) CHECK(value[i] == std::max(0.0, numbers[i]));
  CHECK(std::isnan(gelu(row({std::nan("")}, f32)).item()));
}

TEST_CASE("bug: gelu_tanh had the gradient NaN at large numbers") {
  for (const DType dtype : {f32, f64}) {
    const Array x = row({-1e20, -1e5, -30, 30, 1e5, 1e20});
    const Outcome outcome =
        run([](In in) { return gelu_tanh(in[0]); }, {x}, dtype, Array::full({6}, 1));
    check_close(outcome.y, row({0, 0, 0, 30, 1e5, 1e20}, dtype), 0);
    check_close(outcome.gradients[0], row({0, 0, 0, 1, 1, 1}, dtype), 0);
    const Array nan = row({std::nan("")});
    CHECK(std::isnan(
        doubles(run([](In in) { return gelu_tanh(in[0]); }, {nan}, dtype, Array::full({1}, 1))
                    .gradients[0])[0]));
  }
}

// Lists activations and losses with their limits at ±1e20 and ±inf.
TEST_CASE("ops: activations and their gradients reach their limits at infinity") {
  struct Limits {
    const char* name;
    Function f;
    std::vector<double> y, dy;  // at -inf, -1e20, 1e20, inf
  };
  const std::vector<Limits> table{
      {"sigmoid", [](In in) { return sigmoid(in[0]); }, {0, 0, 1, 1}, {0, 0, 0, 0}},
      {"tanh", [](In in) { return tanh(in[0]); }, {-1, -1, 1, 1}, {0, 0, 0, 0}},
      {"relu", [](In in) { return relu(in[0]); }, {0, 0, 1e20, infinity}, {0, 0, 1, 1}},
      {"exp",
       [](In in) { return exp(in[0]); },
       {0, 0, infinity, infinity},
       {0, 0, infinity, infinity}},
  };
  for (const DType dtype : {f32, f64})
    for (const Limits& limits : table) {
      CAPTURE(limits.name);
      const Array x = row({-infinity, -1e20, 1e20, infinity});
      const Outcome outcome = run(limits.f, {x}, dtype, Array::full({4}, 1));
      CHECK(distance(outcome.y, row(limits.y, dtype)) == 0);
      CHECK(distance(outcome.gradients[0], row(limits.dy, dtype)) == 0);
    }
}

TEST_CASE("bug: gelu and gelu_tanh hid values that are not finite, and missed their limits") {
  for (const DType dtype : {f32, f64}) {
    const Array x = row({-1e20, 1e20});
    for (const Function& f : {Function([](In in) { return gelu(in[0]); }),
                              Function([](In in) { return gelu_tanh(in[0]); })}) {
      const Outcome outcome = run(f, {x}, dtype, Array::full({2}, 1));
      check_close(outcome.y, row({0, 1e20}, dtype), 0);
      check_close(outcome.gradients[0], row({0, 1}, dtype), 0);
      CHECK_FALSE(std::isfinite(doubles(f({Tensor(row({infinity}, dtype))}).value())[0]));
    }
  }
}

TEST_CASE("bug: layer_norm hid an overflow as zeros") {
  const Array ones = Array::full({4}, 1), zeros = Array::zeros({4});
  const Function norm = [&](In in) { return layer_norm(in[0], ones, zeros); };
  for (const auto& values :
       {std::vector<double>{1e20, -1e20, 2e20, 0}, std::vector<double>{3e38, 3e38, 3e38, 3e38},
        std::vector<double>{1, infinity, 2, 3}}) {
    const Outcome outcome = run(norm, {row(values).reshaped({1, 4})}, f32, Array::full({1, 4}, 1));
    for (const double y : doubles(outcome.y)) CHECK_FALSE(std::isfinite(y));
    for (const double dx : doubles(outcome.gradients[0])) CHECK_FALSE(std::isfinite(dx));
  }
  // Numbers whose squares fit into float32 have correct results.
  const Array large = row({1e18, -1e18, 1e18, -1e18}).reshaped({1, 4});
  check_close(layer_norm(large.to(f32), ones, zeros).value(),
              row({1, -1, 1, -1}, f32).reshaped({1, 4}), 1e-6);
}

TEST_CASE("ops: max pooling passes NaN and infinities on") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t stride : {2, 1})  // windows of two pixels, and others
    for (const auto& pixels : {std::vector<double>{nan, 1, 2, 3}, std::vector<double>{1, 2, 3, nan},
                               std::vector<double>{1, nan, infinity, 2}}) {
      const Tensor x = row(pixels).reshaped({1, 1, 2, 2});
      CHECK(std::isnan(doubles(max_pool2d(x, {.stride = stride}).value())[0]));
    }
  const Tensor lowest = Array::full({1, 1, 2, 2}, -infinity);
  CHECK(doubles(max_pool2d(lowest).value())[0] == -infinity);
}

TEST_CASE("ops: rms_norm is correct up to an overflow, and shows it") {
  const Array ones = Array::full({4}, 1);
  const Function norm = [&](In in) { return rms_norm(in[0], ones); };
  for (const auto& values :
       {std::vector<double>{1e20, -1e20, 2e20, 1}, std::vector<double>{1, infinity, 2, 3}}) {
    const Outcome outcome = run(norm, {row(values).reshaped({1, 4})}, f32, Array::full({1, 4}, 1));
    for (const double y : doubles(outcome.y)) CHECK_FALSE(std::isfinite(y));
    for (const double dx : doubles(outcome.gradients[0])) CHECK_FALSE(std::isfinite(dx));
  }
  const Array large = row({1e18, -1e18, 1e18, -1e18}).reshaped({1, 4});
  check_close(rms_norm(large.to(f32), ones).value(), row({1, -1, 1, -1}, f32).reshaped({1, 4}),
              1e-6);
  check_close(rms_norm(Array::zeros({1, 4}), ones, {.epsilon = 0}).value(), Array::zeros({1, 4}),
              0);
}

TEST_CASE("bug: unit_rows replaced overflows and small rows by zeros") {
  const Function unit = [](In in) { return unit_rows(in[0]); };
  const double third = 1 / std::sqrt(3);
  for (const double size : {1e-40, 1e-30, 1e-20, 1.0, 1e18, 1e20, 3e38}) {
    CAPTURE(size);
    const Array x = row({size, -size, 0, size}, f32);
    check_close(unit({Tensor(x)}).value(), row({third, -third, 0, third}, f32), 1e-6);
  }
  const Outcome outcome = run(unit, {row({3e20, 4e20})}, f32, row({1, 0}));
  check_close(outcome.y, row({0.6, 0.8}, f32), 1e-6);
  const auto gradient = doubles(outcome.gradients[0]);  // (dy - y Σ dy y) / |x|
  CHECK(gradient[0] == doctest::Approx(0.64 / 5e20).epsilon(1e-5));
  CHECK(gradient[1] == doctest::Approx(-0.48 / 5e20).epsilon(1e-5));
  for (const double y : doubles(unit({Tensor(row({1, infinity}, f32))}).value()))
    CHECK_FALSE(std::isfinite(y));
  check_close(unit({Tensor(row({0, 0}, f32))}).value(), row({0, 0}, f32), 0);
}

TEST_CASE("bug: attention whose scores all overflowed was treated as a query without keys") {
  const Array q = Array::full({1, 2, 4}, 1e20), k = Array::full({1, 3, 4}, -1e20);
  const Array v = Array::full({1, 3, 4}, 1);
  for (const double y : doubles(scaled_dot_product_attention(q, k, v).value()))
    CHECK_FALSE(std::isfinite(y));
  // A query without keys has zeros.
  const Array hidden = ints({1, 1, 1}, {1, 3});
  check_close(scaled_dot_product_attention(q, k, v, {.key_padding = hidden}).value(),
              Array::zeros({1, 2, 4}), 0);
}

TEST_CASE("bug: linear attention hid the overflow of its denominator as zeros") {
  const Array q = Array::full({1, 1, 2, 1}, 1e20), v = Array::full({1, 1, 1}, 1e-10);
  for (const double y : doubles(linear_attention(q, q, v).value())) CHECK_FALSE(std::isfinite(y));
}

// Sums of so many numbers that a sequential sum loses them: the result is exact to a few units in
// the last place.

constexpr double tenth = 0.1f;

Array tenths(const Shape& shape) { return Array::full(shape, 0.1); }

// Returns the largest relative error of elements that should all be `wanted`.
double error_of(const Array& found, double wanted) {
  double worst = 0;
  for (const double value : doubles(found))
    worst = std::max(worst, std::isnan(value) ? infinity : std::abs(value / wanted - 1));
  return worst;
}

TEST_CASE("bug: the mean of twenty million numbers had an error of a hundredth") {
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

TEST_CASE("bug: long rows and columns were summed sequentially") {
  constexpr std::int64_t n = 1'000'000;
  CHECK(error_of(sum(tenths({n, 3}), {0}).value(), n * tenth) < 1e-5);
  CHECK(error_of(sum(tenths({3, n}), {1}).value(), n * tenth) < 1e-5);
  CHECK(error_of(sum(tenths({2, n, 2}), {1}).value(), n * tenth) < 1e-5);
  CHECK(error_of(sum_to(tenths({n, 5}), {1, 5}), n * tenth) < 1e-5);  // gradient of a broadcast
  CHECK(sum_all(tenths({n})) == doctest::Approx(n * tenth).epsilon(1e-12));
  CHECK(sum_of_squares(tenths({n})) == doctest::Approx(n * tenth * tenth).epsilon(1e-12));
}

TEST_CASE("bug: long segments, rows of a softmax and products were summed sequentially") {
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
  // The sums of blocks of the inner dimension are added sequentially: about 4,000 additions.
  CHECK(error_of(matmul(tenths({20, n}), Array::full({n, 1}, 1)).value(), n * tenth) < 1e-4);
  const Array unit = unit_rows(tenths({1, n})).value();
  CHECK(error_of(unit, 1e-3) < 1e-5);
}

TEST_CASE("bug: the gradient of a frequent token or node was summed sequentially") {
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
