#include "layers/random_features.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/check.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/linear_attention.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"
#include "layers/module.hpp"

namespace tapestry {
namespace {

// Makes the rows (n, d) of each group of d orthogonal by Gram-Schmidt, and keeps their lengths.
void orthogonalize(std::span<float> rows, std::size_t d) {
  const auto row = [&](std::size_t i) { return rows.subspan(i * d, d); };
  const auto dot = [](std::span<const float> x, std::span<const float> y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  for (std::size_t i = 0; i < rows.size() / d; ++i) {
    const double length = std::sqrt(dot(row(i), row(i)));
    const auto add = [&](double factor, std::span<const float> y) {
      for (std::size_t c = 0; c < d; ++c) row(i)[c] += static_cast<float>(factor * y[c]);
    };
    for (std::size_t j = i / d * d; j < i; ++j)
      add(-dot(row(i), row(j)) / dot(row(j), row(j)), row(j));
    add(length / std::sqrt(dot(row(i), row(i))) - 1, row(i));
  }
}

Array draw(std::int64_t heads, std::int64_t head_width, Random& init,
           const RandomFeaturesOptions& options) {
  require_value(options.features >= 1, "random features", "features", options.features,
                "1 or more");
  Array projection = initial_normal({heads, options.features, head_width}, 1, init);
  if (options.map == FeatureMap::trigonometric) return projection;
  const auto values = projection.mutable_values<float>();
  const std::size_t head = values.size() / heads;
  for (std::size_t begin = 0; begin < values.size(); begin += head)
    orthogonalize(values.subspan(begin, head), head_width);
  return projection;
}

}  // namespace

RandomFeatures::RandomFeatures(std::int64_t heads, std::int64_t head_width, Random& init,
                               const RandomFeaturesOptions& wanted)
    : options(wanted), projection(draw(heads, head_width, init, wanted), Role::fixed) {
  if (options.map == FeatureMap::trigonometric)
    sigma.emplace(Array::full({heads, head_width}, 1), Role::norm);
}

std::int64_t RandomFeatures::width() const {
  return options.map == FeatureMap::trigonometric ? 2 * options.features : options.features;
}

Features RandomFeatures::forward(const Tensor& x) const {
  const Scope scope(path());
  const std::int64_t H = projection.tensor.dim(0), D = options.features, d = x.dim(-1);
  if (sigma) {
    const Tensor w = reshape(*sigma, {H, 1, d}) * projection;
    return {.values = sine_features(matmul(w, unit_rows(x), {.transpose_b = true}))};
  }
  const Tensor scaled = x * std::pow(static_cast<double>(d), -0.25);
  const Tensor squares = sum(scaled * scaled, {-1});  // (..., H, T)
  std::vector<std::int64_t> row(squares.shape().begin(), squares.shape().end());
  row.insert(row.end() - 1, 1);  // (..., H, 1, T)
  const Tensor logs =
      matmul(projection, scaled, {.transpose_b = true}) - 0.5 * reshape(squares, row);
  const Array highest = max(logs.value(), {-2}, Keep::yes).value();
  return {.values = exp(logs - highest) * (1 / std::sqrt(static_cast<double>(D))),
          .log_scales = highest.reshaped(squares.shape())};
}

TAPESTRY_FIELDS(RandomFeatures, projection, sigma)

}  // namespace tapestry
