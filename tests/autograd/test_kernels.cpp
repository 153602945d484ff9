#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/kernels/simd.hpp"
#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"

// Compares vector arithmetic with the standard library.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("kernels");

struct Elementary {
  std::string name;
  std::function<Array(const Array&)> vectorized;
  long double (*exact)(long double);
  double low, high;  // of float64; clipped for float32
  double ulps32, ulps64;
};

template <class F>
std::function<Array(const Array&)> each(F f) {
  return [f](const Array& x) {
    Array y(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      map_span(x.size(), {x.values<T>().data()}, y.mutable_values<T>().data(), f);
    });
    return y;
  };
}

// Returns the largest error of y in units of the last place of the exact value, if that is normal.
template <class T>
double worst_ulps(const Elementary& f, double low, double high) {
  const int n = 20001;
  std::vector<T> x;
  for (int i = 0; i < n; ++i) {
    x.push_back(static_cast<T>(low + (high - low) * i / (n - 1)));
    const T tiny = static_cast<T>(std::pow(10., -30. * i / n));  // also towards 0
    for (const T small : {tiny, -tiny})
      if (small >= low && small <= high) x.push_back(small);
  }
  const Array y = f.vectorized(Array::of(x, {std::ssize(x)}));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = f.exact(x[i]);
    const T rounded = static_cast<T>(exact);
    if (!std::isnormal(rounded)) continue;
    const T size = std::abs(rounded);
    const T ulp = size - std::nextafter(size, T(0));
    const double error = static_cast<double>(std::abs(y.template values<T>()[i] - exact) / ulp);
    worst = std::max(worst, std::isnan(error) ? infinity : error);
  }
  return worst;
}

#ifdef __FMA__
TEST_CASE("kernels: fma rounds once if the processor has the instruction") {
  const auto check = [](auto one) {
    using T = decltype(one);
    const T x = one + std::numeric_limits<T>::epsilon();
    const Simd<T> fused = xsimd::fma(Simd<T>(x), Simd<T>(x), Simd<T>(-(x * x)));
    alignas(64) T lanes[simd_width<T>];
    fused.store_aligned(lanes);
    CHECK(lanes[simd_width<T> - 1] == std::fma(x, x, -(x * x)));
    CHECK(lanes[0] != 0);  // difference of a product rounded before the sum
  };
  check(1.0f);
  check(1.0);
}
#endif

TEST_CASE_TEMPLATE("kernels: a square is transposed", T, float, double) {
  constexpr int width = simd_width<T>;
  Lanes<T> square[width];
  for (int row = 0; row < width; ++row)
    for (int lane = 0; lane < width; ++lane) square[row][lane] = static_cast<T>(100 * row + lane);
  transpose<T>(square);
  for (int row = 0; row < width; ++row)
    for (int lane = 0; lane < width; ++lane) CHECK(T(square[row][lane]) == T(100 * lane + row));
}

TEST_CASE("kernels: vectorized functions are within a few units in the last place of std::") {
  const std::vector<Elementary> rows = {
      {"exp", each([](auto x) { return exp(x); }), std::exp, -87, 88, 2, 2},
      {"log", each([](auto x) { return log(x); }), std::log, 1e-30, 1e6, 2, 2},
      {"sin", each([](auto x) { return sin(x); }), std::sin, -3, 3, 2, 2},
      {"cos", each([](auto x) { return cos(x); }), std::cos, -1.5, 1.5, 2, 2},
      {"tanh", each([](auto x) { return tanh(x); }), std::tanh, -20, 20, 2, 2},
      {"erf", each([](auto x) { return erf(x); }), std::erf, -6, 6, 3, 70},
      {"log1p", each([](auto x) { return log1p(x); }), std::log1p, -0.99, 1e3, 2, 2},
      {"expm1", each([](auto x) { return expm1(x); }), std::expm1, -30, 80, 3, 2},
  };
  for (const Elementary& row : rows) {
    CAPTURE(row.name);
    CHECK_MESSAGE(worst_ulps<float>(row, row.low, row.high) <= row.ulps32, row.name);
    CHECK(worst_ulps<double>(row, row.low, row.high) <= row.ulps64);
  }
}

TEST_CASE("kernels: vectorized sines and cosines of large angles are within an ulp of 1") {
  std::vector<float> angles;
  for (double x = 1; x < 1e6; x *= 1.001) angles.insert(angles.end(), {float(x), -float(x)});
  for (const DType dtype : {f32, f64}) {
    const Array x = Array::of(angles, {std::ssize(angles)}).to(dtype);
    const std::vector<double> sines = doubles(sin(x).value()), cosines = doubles(cos(x).value());
    double worst = 0;
    for (std::size_t i = 0; i < angles.size(); ++i)
      worst = std::max({worst, std::abs(sines[i] - std::sin(double{angles[i]})),
                        std::abs(cosines[i] - std::cos(double{angles[i]}))});
    CHECK(worst <= (dtype == f32 ? 1.2e-7 : 2.3e-16));
  }
}

TEST_CASE("kernels: vectorized functions of special values") {
  const double nan = std::nan("");
  const auto check = [](const std::string& name, const std::function<Array(const Array&)>& f,
                        const std::vector<double>& xs, const std::vector<double>& ys) {
    for (const DType dtype : {f32, f64})
      for (std::size_t i = 0; i < xs.size(); ++i) {
        CAPTURE(name);
        CAPTURE(xs[i]);
        INFO(std::string(to_string(dtype)));
        const Array x = Array::full({1}, xs[i], dtype), wanted = Array::full({1}, ys[i], dtype);
        const double y = doubles(f(x))[0], exact = doubles(wanted)[0];
        CAPTURE(y);
        CHECK((std::isnan(exact) ? std::isnan(y) : y == exact));
      }
  };
  check("exp", each([](auto x) { return exp(x); }),
        {infinity, -infinity, nan, 0, -0., 1e-310, -1e4, 1e4},
        {infinity, 0, nan, 1, 1, 1, 0, infinity});
  check("log", each([](auto x) { return log(x); }), {infinity, 0, -0., -1, -infinity, nan, 1},
        {infinity, -infinity, -infinity, nan, nan, nan, 0});
  check("sin", each([](auto x) { return sin(x); }), {infinity, nan, 0, -0.}, {nan, nan, 0, -0.});
  check("cos", each([](auto x) { return cos(x); }), {-infinity, nan, 0, -0.}, {nan, nan, 1, 1});
  check("tanh", each([](auto x) { return tanh(x); }), {infinity, -infinity, nan, 0, -0., 1e-310},
        {1, -1, nan, 0, -0., 1e-310});
  check("erf", each([](auto x) { return erf(x); }), {infinity, -infinity, nan, 0, -0.},
        {1, -1, nan, 0, -0.});
  check("log1p", each([](auto x) { return log1p(x); }), {infinity, -1, nan, 0, -2},
        {infinity, -infinity, nan, 0, nan});
  check("expm1", each([](auto x) { return expm1(x); }), {infinity, -infinity, nan, 0},
        {infinity, -1, nan, 0});
  check("sqrt", each([](auto x) { return sqrt(x); }), {infinity, 0, -0., -1, nan, 4},
        {infinity, 0, -0., nan, nan, 2});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
