#include "layers/models/tabular_network.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

std::int64_t bins_of(const std::vector<double>& edges) {
  return edges.size() < 3 ? 0 : std::ssize(edges) - 1;
}

// Returns (N, 1, T) of value(n, t) for each bin t of number n, 0 for others.
template <class Value>
Array of_bins(const std::vector<std::vector<double>>& edges, Value value) {
  std::int64_t T = 0;
  for (const auto& one : edges) T = std::max(T, bins_of(one));
  Array all = Array::zeros({std::ssize(edges), 1, T}, DType::float64);
  if (is_dry_run()) return all;
  for (std::int64_t n = 0; n < std::ssize(edges); ++n)
    for (std::int64_t t = 0; t < bins_of(edges[n]); ++t)
      all.mutable_values<double>()[n * T + t] = value(edges[n], t);
  return all;
}

// Returns one of ±1 for each element with equal probability, or normal values.
Array initial_factors(const Shape& shape, bool are_signs, Random& init) {
  Array factors = initial_normal(shape, 1, init);
  if (are_signs && !is_dry_run())
    for (float& factor : factors.mutable_values<float>()) factor = factor < 0 ? -1 : 1;
  return factors;
}

// Returns the number of inputs of the perceptron.
std::int64_t inputs_of(const TabularNetworkOptions& options) {
  const auto N = std::ssize(options.edges), K = std::ssize(options.categories);
  return N * std::max<std::int64_t>(1, options.number_width) + K * options.category_width;
}

const TabularNetworkOptions& checked(const TabularNetworkOptions& options) {
  require(inputs_of(options) > 0, "tabular network: no columns; expected at least one");
  require(options.outputs >= 1 && options.layers >= 1 && options.width >= 1 &&
              options.members >= 1 && options.category_width >= 1 && options.number_width >= 0,
          "tabular network: {} outputs, {} layers of {}, {} members; expected at least 1 of each",
          options.outputs, options.layers, options.width, options.members);
  return options;
}

}  // namespace

NumberEmbedding::NumberEmbedding(const std::vector<std::vector<double>>& edges, std::int64_t width,
                                 Random& init)
    : weight(initial_uniform({std::ssize(edges), width}, 1 / std::sqrt(static_cast<double>(width)),
                             init),
             Role::embedding),
      bias(initial_uniform({std::ssize(edges), width}, 1 / std::sqrt(static_cast<double>(width)),
                           init),
           Role::bias),
      pieces(Array::zeros(
                 {std::ssize(edges), of_bins(edges, [](auto&, auto) { return 0; }).dim(2), width}),
             Role::embedding),
      low(of_bins(edges, [](const auto& e, auto t) { return e[t]; })),
      scale(of_bins(edges, [](const auto& e, auto t) { return 1 / (e[t + 1] - e[t]); })),
      is_first(of_bins(edges, [](const auto&, auto t) { return t == 0 ? 1.0 : 0.0; })),
      is_inner(
          of_bins(edges, [](const auto& e, auto t) { return t + 1 < bins_of(e) ? 1.0 : 0.0; })) {
  if (low.dim(2) == 0) pieces.fix();  // no column has bins
}

// The share s of a bin is relu(s) - relu(s - 1), without the first term's limit in the first bin
// and without the second term in the last one.
Tensor NumberEmbedding::encoded(const Tensor& x) const {
  const DType dtype = x.dtype();
  const std::int64_t B = x.dim(0), N = x.dim(1);
  const Tensor columns = reshape(permute(x, {1, 0}), {N, B, 1});
  const Tensor share = (columns - low.to(dtype)) * scale.to(dtype);
  return relu(share) - is_first.to(dtype) * relu(-1.0 * share) -
         is_inner.to(dtype) * relu(share - Array::full({}, 1, dtype));
}

Tensor NumberEmbedding::forward(const Tensor& x) const {
  const Scope scope(path());
  const std::int64_t B = x.dim(0), N = x.dim(1);
  const Tensor linear_part = reshape(x, {B, N, 1}) * weight.tensor + bias.tensor;
  if (low.dim(2) == 0) return linear_part;
  return linear_part + permute(matmul(encoded(x), pieces), {1, 0, 2});
}

TAPESTRY_FIELDS(NumberEmbedding, weight, bias, pieces)

TabularNetwork::TabularNetwork(const TabularNetworkOptions& wanted, Random& init)
    : options(checked(wanted)),
      dropout(options.dropout),
      head(initial_uniform({options.members, options.width, options.outputs},
                           1 / std::sqrt(static_cast<double>(options.width)), init),
           Role::head),
      head_bias(initial_uniform({options.members, 1, options.outputs},
                                1 / std::sqrt(static_cast<double>(options.width)), init),
                Role::bias) {
  if (options.number_width > 0 && !options.edges.empty())
    numbers.emplace(options.edges, options.number_width, init);
  for (const std::int64_t count : options.categories)
    categories.emplace_back(count, options.category_width, init);
  std::int64_t in = inputs_of(options);
  if (options.members > 1)
    factors.emplace(initial_factors({options.members, in}, !numbers, init), Role::embedding);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.emplace_back(in, options.width, init);
    in = options.width;
  }
}

Tensor TabularNetwork::inputs(const Tensor& x) const {
  const std::int64_t B = x.dim(0), N = std::ssize(options.edges);
  std::vector<Tensor> parts;
  if (N > 0) {
    const Tensor values = slice(x, 1, 0, N);
    parts.push_back(numbers ? reshape(numbers->forward(values), {B, N * options.number_width})
                            : values);
  }
  for (std::size_t k = 0; k < categories.size(); ++k) {
    const auto column = N + static_cast<std::int64_t>(k);
    const Array indices = slice(x, 1, column, column + 1).value().to(DType::int32);
    parts.push_back(categories[k].forward(indices.reshaped({B})));
  }
  return parts.size() == 1 ? parts.front() : concat(parts, 1);
}

Tensor TabularNetwork::forward(const Tensor& x, Random* noise) const {
  const Scope scope(path());
  const std::int64_t N = std::ssize(options.edges), K = std::ssize(categories), M = options.members;
  require(x.rank() == 2 && x.dim(1) == N + K,
          "tabular network: x {}; expected (B, {}): {} numbers and {} categories", x.shape(), N + K,
          N, K);
  const std::int64_t B = x.dim(0);
  Tensor y = inputs(x);
  if (factors) y = reshape(y, {B, 1, y.dim(1)}) * factors->tensor;
  for (const Linear& layer : layers)
    y = dropout.forward(activate(options.activation, layer.forward(y)), noise);
  const Tensor by_member = permute(reshape(y, {B, M, options.width}), {1, 0, 2});
  return permute(matmul(by_member, head) + head_bias.tensor, {1, 0, 2});
}

TAPESTRY_FIELDS(TabularNetwork, numbers, categories, factors, layers, head, head_bias)

}  // namespace tapestry
