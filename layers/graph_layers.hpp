#pragma once

#include <concepts>
#include <optional>

#include "autograd/adjacency.hpp"
#include "layers/dropout.hpp"
#include "layers/feed_forward.hpp"

// Layers that pass messages along the edges of a graph of N nodes, and what pools the nodes.
namespace tapestry {

// What graph layers read of N nodes: features (N, F), dense or by the entries that are not zero.
class NodeFeatures {
 public:
  NodeFeatures(const std::convertible_to<Tensor> auto& x) : x_(x) {}  // (N, F); implicit on purpose
  // (E, 1), one for each edge from a column to a row; none where x is dense.
  NodeFeatures(const Tensor& x, const std::optional<Adjacency>& entries)
      : x_(x), entries_(entries) {}

  Tensor times(const Linear& map) const;                              // (N, C); `map` has no bias
  NodeFeatures dropped(const Dropout& dropout, Random* noise) const;  // zeros cost no number
  DType dtype() const { return x_.dtype(); }

 private:
  Tensor x_;
  std::optional<Adjacency> entries_{};
};

// f(X, E, θ)_j = σ(θ₁ᵀx̄_j + Σ_{i ∈ N(j)} w_ij θ₂ᵀx_i): what a node makes of itself and of those
// that lead to it. x̄ is x with a 1 appended, that is, a map with a bias; each kind has its own w.
class GraphLayer : public Module {
 public:
  std::optional<Linear> own;  // θ₁ but for its bias; none where a node is its own neighbour
  Parameter bias;             // (C)
  Activation activation;      // σ

  Tensor forward(const Adjacency& graph, const NodeFeatures& x) const;  // (N, F) -> (N, C)

  // Returns the weights (E, H) that a layer with attention gives to the graph's edges, else
  // nothing.
  virtual Tensor weights(const Adjacency&, const NodeFeatures&) const { return {}; }

 protected:
  GraphLayer(std::optional<Linear> self, std::int64_t out, Activation sigma)
      : own(std::move(self)), bias(Array::zeros({out}), Role::bias), activation(sigma) {}
  void common_fields(FieldVisitor& visit);

 private:
  virtual Tensor gather(const Adjacency& graph,
                        const NodeFeatures& x) const = 0;  // the sum over N(j)
};

// How a graph convolution weighs the neighbours of a node, of which there are d_j = |N(j)|.
enum class Normalization {
  sum,        // w_ij = 1
  mean,       // w_ij = 1 / d_j
  symmetric,  // w_ij = 1 / √((1 + d_i) (1 + d_j)), each node its own neighbour in place of θ₁
};

// All neighbours count by their number alone. Symmetric: D̃^-½ (A + I) D̃^-½ X θ₂ + b (Kipf &
// Welling 2016, arXiv 1609.02907, eq. 2 and the renormalisation of §2.2).
class GraphConvolution final : public GraphLayer {
 public:
  Linear neighbours;  // θ₂
  Normalization normalization;

  struct Options {
    Normalization normalization = Normalization::sum;
    Activation activation = Activation::relu;
  };
  GraphConvolution(std::int64_t in, std::int64_t out, Random& init, const Options& options);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor gather(const Adjacency& graph, const NodeFeatures& x) const override;
};

// Each node asks, and weighs its neighbours by their answers: scaled dot-product attention masked
// by the edges (Veličković et al. 2017, arXiv 1710.10903, §2.1, with the scores of Vaswani et al.
// 2017), at a cost of E, not N². w_ij = softmax over i ∈ N(j) of q_jᵀk_i / √D, in each of H heads.
// A mean: of neighbours that are all alike it cannot tell how many there are.
class GraphAttention final : public GraphLayer {
 public:
  Linear query, key, value;  // value is θ₂
  std::int64_t heads;

  struct Options {
    std::int64_t heads = 1;  // must divide `out`, else std::invalid_argument
    Activation activation = Activation::relu;
  };
  GraphAttention(std::int64_t in, std::int64_t out, Random& init, const Options& options);
  Tensor weights(const Adjacency& graph, const NodeFeatures& x) const override;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor gather(const Adjacency& graph, const NodeFeatures& x) const override;
};

enum class Pooling { sum, mean, max };

// The nodes of each graph of a batch, as one: x (N, C), first_nodes (G + 1) int32 -> (G, C). Graph
// g has the nodes [first_nodes[g], first_nodes[g + 1]).
Tensor pool(Pooling pooling, const Tensor& x, const Array& first_nodes);

}  // namespace tapestry
