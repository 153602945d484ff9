#include "train/tools/doctor/dependence.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <xtensor/xindex_view.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

#include "autograd/kernels/matmul.hpp"
#include "autograd/random.hpp"
#include "autograd/xtensor.hpp"
#include "data/text/pairs.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

std::span<const std::int32_t> row(const SparseRows& rows, std::int64_t v) {
  const auto offsets = rows.offsets.values<std::int32_t>();
  return rows.neighbors.values<std::int32_t>().subspan(offsets[v], offsets[v + 1] - offsets[v]);
}

// Adds the columns of a node's features that are not zero.
void add_columns(Tokens& tokens, const Batch& one, const GraphPart& part, std::int64_t v) {
  if (part.features) {
    const auto columns = row(part.features->incoming(), v);
    tokens.insert(tokens.end(), columns.begin(), columns.end());
    return;
  }
  const std::int64_t width = one.inputs.dim(1);
  const auto features = one.inputs.values<float>().subspan(v * width, width);
  for (std::int64_t f = 0; f < width; ++f)
    if (features[f] != 0) tokens.push_back(static_cast<std::int32_t>(f));
}

// Returns the columns of the features that are not zero, as tokens: those of the first node with a
// target, then those of its neighbors.
Tokens read_node(const Batch& one, const GraphPart& part) {
  const auto targets = one.targets.values<std::int32_t>();
  const std::int64_t node =
      std::ranges::find_if(targets, [](std::int32_t label) { return label != ignored_target; }) -
      targets.begin();
  Tokens tokens;
  add_columns(tokens, one, part, node);
  for (const std::int32_t neighbor : row(part.adjacency.incoming(), node))
    add_columns(tokens, one, part, neighbor);
  return tokens;
}

Tokens read_graph(const Adjacency& graph) {
  constexpr std::int64_t degrees = 1024;  // number of degrees; higher ones count as the last
  const auto degree = [&](std::int64_t v) {
    return static_cast<std::int32_t>(std::min(std::ssize(row(graph.incoming(), v)), degrees - 1));
  };
  Tokens tokens;
  for (std::int64_t v = 0; v < graph.nodes(); ++v) tokens.push_back(degree(v));
  for (const Edge& edge : graph.list())
    tokens.push_back(31 * (1 + degree(edge.from)) + degree(edge.to));
  return tokens;
}

// Subtracts the mean of each row and column of a symmetric matrix; rounding errors become 0.
void center(Array& matrix) {
  auto values = xtensor_view<double, 2>(matrix);
  const xt::xtensor<double, 1> means = xt::mean(values, {0});
  const double mean = xt::mean(means)();
  values += mean - means - xt::view(means, xt::all(), xt::newaxis());
  xt::filtration(values, xt::abs(values) < 1e-12 * std::abs(mean)) = 0;
}

// Replaces the inner products of n rows by exp(-d²), where d is the distance of two rows relative
// to the root mean square of all distances.
void to_gaussian(Array& products) {
  auto values = xtensor_view<double, 2>(products);
  const xt::xtensor<double, 1> lengths = xt::diagonal(values);
  const xt::xtensor<double, 2> squared =
      xt::maximum(0.0, lengths + xt::view(lengths, xt::all(), xt::newaxis()) - 2.0 * values);
  const double mean = xt::mean(squared)();
  xt::noalias(values) = xt::exp(squared * (mean > 0 ? -1 / mean : 0));
}

// Returns the sum over pairs of examples of both similarities, with the targets permuted by
// `order`.
double criterion(const Array& inputs, const Array& targets, const std::vector<std::size_t>& order) {
  const std::size_t n = order.size();
  const auto x = inputs.values<double>(), y = targets.values<double>();
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) sum += x[i * n + j] * y[order[i] * n + order[j]];
  return sum;
}

}  // namespace

Array graph_reading(const Batch& one, const GraphPart& part) {
  const Tokens tokens =
      part.first_nodes.empty() ? read_node(one, part) : read_graph(part.adjacency);
  return Array::of(tokens, {std::ssize(tokens)});
}

Array reading_of(const Batch& one) {
  if (const auto* graph = one.find<GraphPart>()) return graph_reading(one, *graph);
  const auto* source = one.find<SourceTokens>();
  return source ? source->tokens : one.inputs;
}

Array rows_of(const std::vector<Array>& examples) {
  constexpr std::int64_t most_tokens = 1024;
  const bool of_tokens = examples.front().dtype() == DType::int32;
  std::int64_t width = of_tokens ? most_tokens : examples.front().size();
  for (const Array& one : examples) width = of_tokens ? width : std::min(width, one.size());
  Array rows = Array::zeros({std::ssize(examples), width});
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto to = rows.mutable_values<float>().subspan(i * width, width);
    if (!of_tokens) {
      std::ranges::copy(examples[i].values<float>().first(width), to.begin());
      continue;
    }
    for (const std::int32_t token : examples[i].values<std::int32_t>())
      if (token != ignored_target) ++to[token % most_tokens];
  }
  return rows;
}

void standardize(Array& rows) {
  constexpr double most = 5;  // limits the effect of rare values
  auto values = xtensor_view<float, 2>(rows);
  const xt::xtensor<double, 1> means = xt::mean<double>(values, {0});
  const xt::xtensor<double, 2> centered = values - means;
  const xt::xtensor<double, 1> variances = xt::mean(centered * centered, {0});
  const xt::xtensor<double, 1> scales = xt::where(variances > 0, 1 / xt::sqrt(variances), 0.0);
  xt::noalias(values) = xt::cast<float>(xt::clip(centered * scales, -most, most));
}

Array similarities(const std::vector<Array>& examples) {
  const bool of_tokens = examples.front().dtype() == DType::int32;
  Array rows = rows_of(examples);
  if (!of_tokens) standardize(rows);
  const std::int64_t n = rows.dim(0);
  Array products({n, n});
  multiply_matrices({.m = n, .n = n, .k = rows.dim(1), .transpose_b = true},
                    {{rows.raw(), rows.raw(), products.mutable_raw()}});
  Array matrix = products.to(DType::float64);
  if (!of_tokens) to_gaussian(matrix);
  return matrix;
}

Dependence& Dependence::operator+=(const Dependence& other) {
  given += other.given;
  variety += other.variety;
  for (std::size_t i = 0; i < random.size(); ++i) random[i] += other.random[i];
  return *this;
}

double Dependence::deviations() const {
  double mean = 0, squares = 0;
  for (const double one : random) mean += one / pairings;
  for (const double one : random) squares += (one - mean) * (one - mean) / pairings;
  return squares > 0 ? (given - mean) / std::sqrt(squares) : 0;
}

Dependence dependence(Array inputs, Array targets, std::uint64_t seed) {
  center(inputs);
  center(targets);
  std::vector<std::size_t> order(inputs.dim(0));
  std::iota(order.begin(), order.end(), std::size_t{0});
  Dependence found{.given = criterion(inputs, targets, order)};
  found.variety = xt::sum(xt::diagonal(xtensor_view<double, 2>(targets)))();
  Random random(seed, Stream::eval);
  for (double& value : found.random) {
    random.shuffle(order);
    value = criterion(inputs, targets, order);
  }
  return found;
}

}  // namespace tapestry
