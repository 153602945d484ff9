#pragma once

#include <memory>

#include "layers/graph_layers.hpp"

namespace tapestry {

enum class GraphLayerKind { convolution, attention };

struct GraphNetworkOptions {
  std::int64_t inputs = 0, classes = 0;
  std::int64_t layers = 2, width = 16;
  GraphLayerKind layer = GraphLayerKind::convolution;
  Normalization normalization = Normalization::symmetric;  // used by convolutions
  std::int64_t heads = 1;                                  // attention heads; must divide the width
  Activation activation = Activation::relu;
  double dropout = 0;
  std::optional<Pooling> pooling{};  // none: classifies nodes instead of graphs
};

// A stack of graph convolutions or graph attention, with dropout before each. To classify nodes,
// the last layer computes their logits (N, classes), with one head and without activation. To
// classify graphs, a linear map of the pooled nodes computes the logits (G, classes). The
// constructor throws std::invalid_argument for less than one layer, and for heads that do not
// divide the width.
class GraphNetwork final : public Module {
 public:
  std::vector<std::unique_ptr<GraphLayer>> layers;
  Dropout dropout;
  std::optional<Pooling> pooling;
  std::optional<Linear> head;  // only with pooling

  GraphNetwork(const GraphNetworkOptions& options, Random& init);

  // Returns the logits for x (N, F), with first_nodes as in pool(). `noise` is for dropout; null:
  // evaluation.
  Tensor forward(const Adjacency& graph, const NodeFeatures& x, const Array& first_nodes,
                 Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
