#pragma once

#include "layers/graph_layers.hpp"

namespace tapestry {

// Graph attention with additive scores (GAT; Veličković et al. 2018, arXiv 1710.10903, eqs. 1 to
// 6). A node is its own neighbor. In each of H heads of width D, with z_i = W₂ x_i (D), w_ij is the
// softmax over i ∈ N(j) ∪ {j} of LeakyReLU(aᵀz_j + bᵀz_i), with slope 0.2 below 0.
class AdditiveGraphAttention final : public WeightedGraphLayer {
 public:
  Linear value;              // W₂ (H · D, F)
  Parameter target, source;  // a and b of each head, (H, D)
  bool averages;
  double weight_dropout;

  struct Options {
    std::int64_t heads = 1;
    bool averages = false;      // averages the heads, of width `out` each, instead of joining them
    double weight_dropout = 0;  // dropout of w
    Activation activation = Activation::elu;
  };
  // Throws std::invalid_argument unless the heads divide `out`, or are averaged.
  AdditiveGraphAttention(std::int64_t in, std::int64_t out, Random& init, const Options& options);
  // Returns w (E, H), by the number of the edge, without those of added loops.
  Tensor weights(const Adjacency& graph, const NodeFeatures& x) const override;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor attend(const Adjacency& looped, const Tensor& z) const;
  Tensor gather(const Adjacency& graph, const NodeFeatures& x, Random* noise) const override;
};

}  // namespace tapestry
