#pragma once

#include "layers/graph_layers.hpp"

namespace tapestry {

// A layer of a deep graph convolutional network (GCNII; Chen et al. 2020, arXiv 2007.02133, eq. 5),
// with initial residual and identity mapping: σ(((1 - α) P X + α X₀) ((1 - β) I + β Wᵀ)), where
// P = D̃^-½ (A + I) D̃^-½, a node is its own neighbor once, and X₀ are GraphPass::initial.
class Gcnii final : public GraphLayer {
 public:
  Linear map;  // W (C, C)
  double alpha, beta;
  Activation activation;  // σ

  struct Options {
    double alpha = 0.1;      // α, the share of the initial features
    double lambda = 0.5;     // λ
    std::int64_t depth = 1;  // l, the number of the layer, from 1; β = log(λ / l + 1)
    Activation activation = Activation::relu;
  };
  Gcnii(std::int64_t width, Random& init, const Options& options);
  // Returns (N, C) for dense x (N, C). Throws std::invalid_argument for other shapes.
  Tensor forward(const Adjacency& graph, const NodeFeatures& x,
                 const GraphPass& pass) const override;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
