#include "train/plot/principal_components.hpp"

#include <algorithm>
#include <cmath>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

#include "autograd/check.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/xtensor.hpp"
#include "train/plot/linear_algebra.hpp"

namespace tapestry {
namespace {

Array centered(const Array& x, const Array& mean) {
  const Array wide = x.to(DType::float64);
  return array_of(xtensor_view<double>(wide) - xtensor_view<double>(mean));
}

// Returns a product (m, n) of float64 matrices.
Array product(const Array& a, const Array& b, Matmul matmul) {
  matmul.dtype = DType::float64;
  Array c({matmul.m, matmul.n}, DType::float64);
  multiply_matrices(matmul, {{a.raw(), b.raw(), c.mutable_raw()}});
  return c;
}

}  // namespace

PrincipalComponents principal_components(const Array& x) {
  require(x.rank() == 2 && x.dim(0) >= 1, "principal_components: x {}; expected (N, Z) with N >= 1",
          to_string(x.shape()));
  const std::int64_t N = x.dim(0), Z = x.dim(1);
  PrincipalComponents components{Array({Z}, DType::float64), Array({Z, Z}, DType::float64), {}, {}};
  const Array wide = x.to(DType::float64);
  xtensor_view<double>(components.mean) = xt::mean(xtensor_view<double>(wide), {0});
  const Array rows = centered(x, components.mean);
  Array covariance = product(rows, rows, {.m = Z, .n = Z, .k = N, .transpose_a = true});
  xtensor_view<double>(covariance) /= static_cast<double>(N);
  Array values({Z}, DType::float64), vectors({Z, Z}, DType::float64);
  linear_algebra().eigenvectors(covariance.values<double>().data(), Z,
                                values.mutable_values<double>().data(),
                                vectors.mutable_values<double>().data());
  components.factor = Array({Z, Z}, DType::float64);
  auto axes = xtensor_view<double>(components.axes),
       factor = xtensor_view<double>(components.factor), found = xtensor_view<double>(vectors);
  for (std::int64_t i = 0; i < Z; ++i) {
    const xt::xtensor<double, 1> axis = xt::row(found, Z - 1 - i);
    const auto largest = std::ranges::max_element(axis, {}, [](double v) { return std::abs(v); });
    const double sign = *largest < 0 ? -1 : 1;
    const double variance = std::max(0.0, values.values<double>()[Z - 1 - i]);
    components.variances.push_back(variance);
    xt::row(axes, i) = sign * axis;
    xt::row(factor, i) = sign * std::sqrt(variance) * axis;
  }
  return components;
}

Array project(const PrincipalComponents& components, const Array& x, std::int64_t count) {
  const Array rows = centered(x, components.mean);
  const Matmul onto_axes{.m = x.dim(0), .n = count, .k = x.dim(1), .transpose_b = true};
  return product(rows, components.axes, onto_axes).to(DType::float32);
}

}  // namespace tapestry
