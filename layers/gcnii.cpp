#include "layers/gcnii.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/graphs.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// Returns `share` times the entries of P for each edge of a graph with loops, (E, 1).
Array entries_of_p(const Adjacency& looped, double share, DType dtype) {
  Array entries({looped.edges(), 1}, DType::float64);
  if (is_dry_run()) return entries.to(dtype);
  const auto out = entries.mutable_values<double>();
  const auto offsets = looped.incoming().offsets.values<std::int32_t>();
  const auto sources = looped.edge_sources().values<std::int32_t>();
  const auto degree = [&](std::int64_t node) -> double {
    return offsets[node + 1] - offsets[node];
  };
  for (std::int64_t j = 0; j < looped.nodes(); ++j)
    for (std::int32_t e = offsets[j]; e < offsets[j + 1]; ++e)
      out[e] = share / std::sqrt(degree(j) * degree(sources[e]));
  return entries.to(dtype);
}

// Returns `scale` times the unit matrix, (C, C).
Array scaled_unit(std::int64_t C, double scale, DType dtype) {
  Array unit = Array::zeros({C, C}, DType::float64);
  if (is_dry_run()) return unit.to(dtype);
  const auto elements = unit.mutable_values<double>();
  for (std::int64_t c = 0; c < C; ++c) elements[c * (C + 1)] = scale;
  return unit.to(dtype);
}

}  // namespace

Gcnii::Gcnii(std::int64_t width, Random& init, const Options& options)
    : map(width, width, init, {.bias = false}),
      alpha(options.alpha),
      beta(std::log(options.lambda / static_cast<double>(options.depth) + 1)),
      activation(options.activation) {}

// (1 - β) I + β W is computed first, which is smaller than the features.
Tensor Gcnii::forward(const Adjacency& graph, const NodeFeatures& x, const GraphPass& pass) const {
  const Scope scope(path());
  const Tensor& own = x.dense();
  require(own.shape() == pass.initial.shape(),
          "gcnii: x {} and initial features {}; expected as many", own.shape(),
          pass.initial.shape());
  const Adjacency looped = graph.with_loops();
  const Tensor p = entries_of_p(looped, 1 - alpha, x.dtype());
  const Tensor mixed = neighbor_sum(looped, own, p) + pass.initial * alpha;
  const Tensor weight = map.weight.tensor * beta + scaled_unit(own.dim(1), 1 - beta, x.dtype());
  return activate(activation, linear(mixed, weight));
}

TAPESTRY_FIELDS(Gcnii, map)

}  // namespace tapestry
