#include "layers/models/graph_network.hpp"

#include "autograd/check.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// Returns layer `depth`, from 1.
std::unique_ptr<GraphLayer> make_layer(const GraphNetworkOptions& options, std::int64_t depth,
                                       Random& init) {
  const bool logits = !options.pooling && depth == options.layers;
  const std::int64_t in = depth == 1 ? options.inputs : options.width;
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
    case GraphLayerKind::additive_attention:
      return std::make_unique<AdditiveGraphAttention>(
          in, out, init,
          AdditiveGraphAttention::Options{
              .heads = logits ? options.output_heads : options.heads,
              .averages = logits,
              .weight_dropout = options.weight_dropout,
              .activation = logits ? Activation::none : Activation::elu});
    case GraphLayerKind::gcnii:
      return std::make_unique<Gcnii>(options.width, init,
                                     Gcnii::Options{.alpha = options.alpha,
                                                    .lambda = options.lambda,
                                                    .depth = depth,
                                                    .activation = options.activation});
  }
  throw_unhandled("graph network's layer");
}

}  // namespace

GraphNetwork::GraphNetwork(const GraphNetworkOptions& options, Random& init)
    : input_activation(options.activation), dropout(options.dropout), pooling(options.pooling) {
  const bool is_deep = options.layer == GraphLayerKind::gcnii;
  require_value(options.layers >= 1, "graph network", "layers", options.layers, "1 or more");
  if (is_deep) input.emplace(options.inputs, options.width, init);
  for (std::int64_t depth = 1; depth <= options.layers; ++depth)
    layers.push_back(make_layer(options, depth, init));
  if (pooling || is_deep)
    head.emplace(options.width, options.classes, init, LinearOptions{.glorot = !is_deep});
  Module& last = head ? static_cast<Module&>(*head) : *layers.back();
  for (Parameter* parameter : last.parameters())
    if (parameter->role == Role::weight) parameter->role = Role::head;
}

Tensor GraphNetwork::forward(const Adjacency& graph, const NodeFeatures& x,
                             const Array& first_nodes, Random* noise) const {
  const Scope scope(path());
  const NodeFeatures kept = x.dropped(dropout, noise);
  GraphPass pass{.noise = noise};
  if (input) pass.initial = activate(input_activation, kept.times(*input));
  Tensor y = layers.front()->forward(
      graph, input ? NodeFeatures(dropout.forward(pass.initial, noise)) : kept, pass);
  for (std::size_t i = 1; i < layers.size(); ++i)
    y = layers[i]->forward(graph, dropout.forward(y, noise), pass);
  if (pooling) y = pool(*pooling, y, first_nodes);
  return head ? head->forward(dropout.forward(y, noise)) : y;
}

TAPESTRY_FIELDS(GraphNetwork, input, layers, dropout, head)

}  // namespace tapestry
