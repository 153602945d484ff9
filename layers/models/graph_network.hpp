#pragma once

#include <memory>

#include "layers/additive_graph_attention.hpp"
#include "layers/gcnii.hpp"

namespace tapestry {

enum class GraphLayerKind { convolution, attention, additive_attention, gcnii };

struct GraphNetworkOptions {
  std::int64_t inputs = 0, classes = 0;
  std::int64_t layers = 2, width = 16;
  GraphLayerKind layer = GraphLayerKind::convolution;
  Normalization normalization = Normalization::symmetric;  // used by convolutions
  std::int64_t heads = 1;                                  // attention heads; must divide the width
  std::int64_t output_heads = 1;     // averaged in the last layer of additive attention
  double alpha = 0.1, lambda = 0.5;  // of Gcnii::Options
  Activation activation = Activation::relu;
  double dropout = 0;
  double weight_dropout = 0;         // dropout of additive attention's weights
  std::optional<Pooling> pooling{};  // none: classifies nodes instead of graphs
};

// A stack of graph layers, with dropout before each. To classify nodes, the last layer computes
// their logits (N, classes), without activation, with one head or averaged ones. To classify
// graphs, a linear map of the pooled nodes computes the logits (G, classes). The layers of a GCNII
// are between two linear maps, of which the first has the activation and the second computes the
// logits of nodes or pooled nodes. The constructor throws std::invalid_argument for less than one
// layer, and for heads that do not divide the width.
class GraphNetwork final : public Module {
 public:
  std::optional<Linear> input;  // of a GCNII
  Activation input_activation;
  std::vector<std::unique_ptr<GraphLayer>> layers;
  Dropout dropout;
  std::optional<Pooling> pooling;
  std::optional<Linear> head;  // only with pooling or of a GCNII

  GraphNetwork(const GraphNetworkOptions& options, Random& init);

  // Returns the logits for x (N, F), with first_nodes as in pool(). `noise` is for dropout; null:
  // evaluation.
  Tensor forward(const Adjacency& graph, const NodeFeatures& x, const Array& first_nodes,
                 Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
