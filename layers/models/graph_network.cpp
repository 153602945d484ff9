#include "layers/models/graph_network.hpp"

#include "autograd/check.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

std::unique_ptr<GraphLayer> make_layer(const GraphNetworkOptions& options, std::int64_t in,
                                       bool logits, Random& init) {
  const std::int64_t out = logits ? options.classes : options.width;
  const Activation activation = logits ? Activation::none : options.activation;
  switch (options.layer) {
    case GraphLayerKind::convolution:
      return std::make_unique<GraphConvolution>(
          in, out, init,
          GraphConvolution::Options{.normalization = options.normalization,
                                    .activation = activation});
    case GraphLayerKind::attention:
      return std::make_unique<GraphAttention>(
          in, out, init,
          GraphAttention::Options{.heads = logits ? 1 : options.heads, .activation = activation});
  }
  throw_unhandled("graph network's layer");
}

}  // namespace

GraphNetwork::GraphNetwork(const GraphNetworkOptions& options, Random& init)
    : dropout(options.dropout), pooling(options.pooling) {
  require_value(options.layers >= 1, "graph network", "layers", options.layers, "1 or more");
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers.push_back(make_layer(options, i == 0 ? options.inputs : options.width,
                                !pooling && i + 1 == options.layers, init));
  if (pooling) head.emplace(options.width, options.classes, init, LinearOptions{.glorot = true});
  Module& last = pooling ? static_cast<Module&>(*head) : *layers.back();
  for (Parameter* parameter : last.parameters())
    if (parameter->role == Role::weight) parameter->role = Role::head;
}

Tensor GraphNetwork::forward(const Adjacency& graph, const NodeFeatures& x,
                             const Array& first_nodes, Random* noise) const {
  const Scope scope(path());
  Tensor y = layers.front()->forward(graph, x.dropped(dropout, noise));
  for (std::size_t i = 1; i < layers.size(); ++i)
    y = layers[i]->forward(graph, dropout.forward(y, noise));
  return pooling ? head->forward(dropout.forward(pool(*pooling, y, first_nodes), noise)) : y;
}

TAPESTRY_FIELDS(GraphNetwork, layers, dropout, head)

}  // namespace tapestry
