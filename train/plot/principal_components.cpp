#include "train/plot/principal_components.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/kernels/matmul.hpp"
#include "train/plot/linear_algebra.hpp"

namespace tapestry {
namespace {

// Returns x - mean: (N, Z), (Z) -> (N, Z) float64.
Array centered(const Array& x, const Array& mean) {
  Array rows(x.shape(), DType::float64);
  const Array wide = x.to(DType::float64);
  const double* from = wide.values<double>().data();
  double* to = rows.mutable_values<double>().data();
  for (std::int64_t n = 0; n < x.dim(0); ++n)
    for (const double m : mean.values<double>()) *to++ = *from++ - m;
  return rows;
}

// Returns the mean of the rows: (N, Z) -> (Z) float64.
Array mean_of_rows(const Array& x) {
  const std::int64_t N = x.dim(0), Z = x.dim(1);
  Array mean({Z}, DType::float64);
  const Array wide = x.to(DType::float64);
  const double* from = wide.values<double>().data();
  double* to = mean.mutable_values<double>().data();
  for (std::int64_t z = 0; z < Z; ++z) {
    double sum = 0;
    for (std::int64_t n = 0; n < N; ++n) sum += from[n * Z + z];
    to[z] = sum / static_cast<double>(N);
  }
  return mean;
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
  PrincipalComponents components{mean_of_rows(x), Array({Z, Z}, DType::float64), {}, {}};
  const Array rows = centered(x, components.mean);
  Array covariance = product(rows, rows, {.m = Z, .n = Z, .k = N, .transpose_a = true});
  for (double& value : covariance.mutable_values<double>()) value /= static_cast<double>(N);
  Array values({Z}, DType::float64), vectors({Z, Z}, DType::float64);
  linear_algebra().eigenvectors(covariance.values<double>().data(), Z,
                                values.mutable_values<double>().data(),
                                vectors.mutable_values<double>().data());
  components.factor = Array({Z, Z}, DType::float64);
  double *axes = components.axes.mutable_values<double>().data(),
         *factor = components.factor.mutable_values<double>().data();
  for (std::int64_t i = Z; i-- > 0;) {  // by falling variance
    const std::span<const double> axis = std::as_const(vectors).values<double>().subspan(i * Z, Z);
    const auto largest = std::ranges::max_element(axis, {}, [](double v) { return std::abs(v); });
    const double sign = *largest < 0 ? -1 : 1;
    const double variance = std::max(0.0, values.values<double>()[i]);
    components.variances.push_back(variance);
    for (const double value : axis) {
      *axes++ = sign * value;
      *factor++ = sign * std::sqrt(variance) * value;
    }
  }
  return components;
}

Array project(const PrincipalComponents& components, const Array& x, std::int64_t count) {
  const Array rows = centered(x, components.mean);
  const Matmul onto_axes{.m = x.dim(0), .n = count, .k = x.dim(1), .transpose_b = true};
  return product(rows, components.axes, onto_axes).to(DType::float32);
}

}  // namespace tapestry
