#include "train/draw/principal_components.hpp"

#include <algorithm>
#include <cmath>
#include <xtensor-blas/xlinalg.hpp>

#include "autograd/check.hpp"
#include "autograd/xtensor.hpp"

namespace tapestry {
namespace {

xt::xtensor<double, 2> centred(const Array& x, const Array& mean) {
  const Array wide = x.to(DType::float64);
  return xtensor_view<double>(wide) - xtensor_view<double>(mean);
}

}  // namespace

PrincipalComponents principal_components(const Array& x) {
  require(x.rank() == 2 && x.dim(0) >= 1, "principal_components: {}", to_string(x.shape()));
  const std::int64_t N = x.dim(0), Z = x.dim(1);
  PrincipalComponents components{Array({Z}, DType::float64), Array({Z, Z}, DType::float64), {}, {}};
  const Array wide = x.to(DType::float64);
  xtensor_view<double>(components.mean) = xt::mean(xtensor_view<double>(wide), {0});
  const xt::xtensor<double, 2> rows = centred(x, components.mean);
  const xt::xtensor<double, 2> covariance =
      xt::linalg::dot(xt::transpose(rows), rows) / static_cast<double>(N);
  const auto [values, vectors] = xt::linalg::eigh(covariance);  // ascending; a vector a column
  components.factor = Array({Z, Z}, DType::float64);
  auto axes = xtensor_view<double>(components.axes),
       factor = xtensor_view<double>(components.factor);
  for (std::int64_t i = 0; i < Z; ++i) {
    const xt::xtensor<double, 1> axis = xt::col(vectors, Z - 1 - i);
    const auto largest = std::ranges::max_element(axis, {}, [](double v) { return std::abs(v); });
    const double sign = *largest < 0 ? -1 : 1;
    const double variance = std::max(0.0, values(Z - 1 - i));
    components.variances.push_back(variance);
    xt::row(axes, i) = sign * axis;
    xt::row(factor, i) = sign * std::sqrt(variance) * axis;
  }
  return components;
}

Array project(const PrincipalComponents& components, const Array& x, std::int64_t count) {
  const xt::xtensor<double, 2> rows = centred(x, components.mean);
  const auto axes = xtensor_view<double>(components.axes);
  const xt::xtensor<double, 2> first = xt::view(axes, xt::range(0, count), xt::all());
  Array projected({x.dim(0), count}, DType::float64);
  xtensor_view<double>(projected) = xt::linalg::dot(rows, xt::transpose(first));
  return projected.to(DType::float32);
}

}  // namespace tapestry
