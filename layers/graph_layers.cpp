#include "layers/graph_layers.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/graphs.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

constexpr LinearOptions without_bias{.bias = false, .glorot = true};

// Returns f(d_j) of each node, (N, 1).
template <class F>
Tensor of_degrees(const Adjacency& graph, DType dtype, F f) {
  Array column({graph.nodes(), 1}, DType::float64);
  if (is_dry_run()) return column.to(dtype);
  const auto values = column.mutable_values<double>();
  const auto offsets = graph.incoming().offsets.values<std::int32_t>();
  for (std::size_t j = 0; j < values.size(); ++j) values[j] = f(offsets[j + 1] - offsets[j]);
  return column.to(dtype);
}

}  // namespace

Tensor NodeFeatures::times(const Linear& map) const {
  if (!entries_) return map.forward(x_);
  const Scope scope(map.path());
  const Tensor y = neighbor_sum(*entries_, permute(map.weight, {1, 0}), x_);
  return map.bias.tensor.value().empty() ? y : y + map.bias;
}

const Tensor& NodeFeatures::dense() const {
  require(!entries_, "graph layer: sparse features {}; expected dense ones", x_.shape());
  return x_;
}

NodeFeatures NodeFeatures::dropped(const Dropout& dropout, Random* noise) const {
  return {dropout.forward(x_, noise), entries_};
}

Tensor WeightedGraphLayer::forward(const Adjacency& graph, const NodeFeatures& x,
                                   const GraphPass& pass) const {
  const Scope scope(path());
  Tensor y = gather(graph, x, pass.noise);
  if (own) y = y + x.times(*own);
  return activate(activation, y + bias);
}

void WeightedGraphLayer::common_fields(FieldVisitor& visit) {
  if (own) visit("own", *own);
  visit("bias", bias);
}

GraphConvolution::GraphConvolution(std::int64_t in, std::int64_t out, Random& init,
                                   const Options& options)
    : WeightedGraphLayer(options.normalization == Normalization::symmetric
                             ? std::nullopt
                             : std::optional<Linear>(std::in_place, in, out, init, without_bias),
                         out, options.activation),
      neighbors(in, out, init, without_bias),
      normalization(options.normalization) {}

Tensor GraphConvolution::gather(const Adjacency& graph, const NodeFeatures& x, Random*) const {
  const Tensor z = x.times(neighbors);  // (N, C)
  switch (normalization) {
    case Normalization::sum:
      return neighbor_sum(graph, z);
    case Normalization::mean:
      return neighbor_sum(graph, z) *
             of_degrees(graph, x.dtype(), [](double d) { return d > 0 ? 1 / d : 0; });
    case Normalization::symmetric: {
      const Tensor root =
          of_degrees(graph, x.dtype(), [](double d) { return 1 / std::sqrt(1 + d); });
      const Tensor scaled = z * root;
      return (neighbor_sum(graph, scaled) + scaled) * root;
    }
  }
  throw_unhandled("graph convolution");
}

void GraphConvolution::fields(FieldVisitor& visit) {
  common_fields(visit);
  visit("neighbours", neighbors);
}

GraphAttention::GraphAttention(std::int64_t in, std::int64_t out, Random& init,
                               const Options& options)
    : WeightedGraphLayer(std::optional<Linear>(std::in_place, in, out, init, without_bias), out,
                         options.activation),
      query(in, out, init, without_bias),
      key(in, out, init, without_bias),
      value(in, out, init, without_bias),
      heads(options.heads) {
  require(heads >= 1 && out % heads == 0,
          "graph attention: {} heads do not divide width {}; expected a divisor", heads, out);
}

Tensor GraphAttention::weights(const Adjacency& graph, const NodeFeatures& x) const {
  const auto D = static_cast<double>(bias.tensor.dim(0) / heads);
  const Tensor scores = edge_products(graph, x.times(query), x.times(key), heads);  // (E, H)
  return segment_softmax(scores * (1 / std::sqrt(D)), graph.incoming().offsets);
}

Tensor GraphAttention::gather(const Adjacency& graph, const NodeFeatures& x, Random*) const {
  return neighbor_sum(graph, x.times(value), weights(graph, x));
}

void GraphAttention::fields(FieldVisitor& visit) {
  common_fields(visit);
  visit("query", query);
  visit("key", key);
  visit("value", value);
}

Tensor pool(Pooling pooling, const Tensor& x, const Array& first_nodes) {
  switch (pooling) {
    case Pooling::sum:
      return segment_sum(x, first_nodes);
    case Pooling::mean:
      return segment_mean(x, first_nodes);
    case Pooling::max:
      return segment_max(x, first_nodes);
  }
  throw_unhandled("pooling");
}

}  // namespace tapestry
