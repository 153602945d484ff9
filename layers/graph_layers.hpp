#pragma once

#include <concepts>
#include <optional>

#include "autograd/adjacency.hpp"
#include "layers/mlp.hpp"
#include "layers/norm.hpp"

// Layers that pass messages along the edges of a graph of N nodes, and pooling of nodes.
namespace tapestry {

// The features (N, F) of N nodes, dense or sparse.
class NodeFeatures {
 public:
  NodeFeatures(const std::convertible_to<Tensor> auto& x) : x_(x) {}  // (N, F); implicit on purpose
  // Constructs sparse features, whose entries, edges from column to row, have values x (E, 1); or
  // dense ones.
  NodeFeatures(const Tensor& x, const std::optional<Adjacency>& entries)
      : x_(x), entries_(entries) {}

  Tensor times(const Linear& map) const;  // returns (N, C)
  // Returns dense features (N, F). Throws std::invalid_argument for sparse ones.
  const Tensor& dense() const;
  NodeFeatures dropped(const Dropout& dropout,
                       Random* noise) const;  // applies dropout to stored entries
  DType dtype() const { return x_.dtype(); }

 private:
  Tensor x_;
  std::optional<Adjacency> entries_{};
};

// What a graph layer reads in addition to its input.
struct GraphPass {
  Random* noise = nullptr;  // of dropout; null: evaluation
  Tensor initial{};         // (N, C), the features that the first layer of a deep network reads
};

// A layer that passes messages along the edges of a graph.
class GraphLayer : public Module {
 public:
  // Returns (N, C) for x (N, F).
  virtual Tensor forward(const Adjacency& graph, const NodeFeatures& x,
                         const GraphPass& pass = {}) const = 0;

  // Returns the weights (E, H) that a layer with attention gives to the graph's edges, else an
  // empty tensor.
  virtual Tensor weights(const Adjacency&, const NodeFeatures&) const { return {}; }
};

// A graph layer y_j = σ(W₁ x_j + Σ_{i ∈ N(j)} w_ij W₂ x_i + b). Subclasses define w.
class WeightedGraphLayer : public GraphLayer {
 public:
  std::optional<Linear> own;  // W₁; none if a node is its own neighbor
  Parameter bias;             // (C)
  Activation activation;      // σ

  Tensor forward(const Adjacency& graph, const NodeFeatures& x,
                 const GraphPass& pass = {}) const final;

 protected:
  WeightedGraphLayer(std::optional<Linear> self, std::int64_t out, Activation sigma)
      : own(std::move(self)), bias(Array::zeros({out}), Role::bias), activation(sigma) {}
  void common_fields(FieldVisitor& visit);

 private:
  // Returns the sum over N(j).
  virtual Tensor gather(const Adjacency& graph, const NodeFeatures& x, Random* noise) const = 0;
};

// The weights of a graph convolution. d_j = |N(j)| is the degree of node j.
enum class Normalization {
  sum,        // w_ij = 1
  mean,       // w_ij = 1 / d_j
  symmetric,  // w_ij = 1 / √((1 + d_i) (1 + d_j)); each node is its own neighbor, without W₁
};

// A graph convolution: the weights depend on the degrees only. Symmetric: D̃^-½ (A + I) D̃^-½ X W₂ᵀ +
// b (Kipf & Welling 2016, arXiv 1609.02907, eq. 2 and the renormalization of §2.2).
class GraphConvolution final : public WeightedGraphLayer {
 public:
  Linear neighbors;  // W₂
  Normalization normalization;

  struct Options {
    Normalization normalization = Normalization::sum;
    Activation activation = Activation::relu;
  };
  GraphConvolution(std::int64_t in, std::int64_t out, Random& init, const Options& options);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor gather(const Adjacency& graph, const NodeFeatures& x, Random* noise) const override;
};

// Graph attention: scaled dot-product attention along the edges (Veličković et al. 2017, arXiv
// 1710.10903, §2.1, with the scores of Vaswani et al. 2017), at a cost of E instead of N².
// w_ij = softmax over i ∈ N(j) of q_jᵀk_i / √D, in each of H heads. The weights sum to 1, so the
// result does not depend on the number of equal neighbors.
class GraphAttention final : public WeightedGraphLayer {
 public:
  Linear query, key, value;  // value is W₂
  std::int64_t heads;

  struct Options {
    std::int64_t heads = 1;  // divides `out`, else the constructor throws std::invalid_argument
    Activation activation = Activation::relu;
  };
  GraphAttention(std::int64_t in, std::int64_t out, Random& init, const Options& options);
  // Returns w (E, H), by the number of the edge.
  Tensor weights(const Adjacency& graph, const NodeFeatures& x) const override;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor gather(const Adjacency& graph, const NodeFeatures& x, Random* noise) const override;
};

enum class Pooling { sum, mean, max };

// Returns the pooled nodes of each graph of a batch: x (N, C), first_nodes (G + 1) int32 -> (G, C).
// Graph g has the nodes [first_nodes[g], first_nodes[g + 1]). Throws std::invalid_argument for
// shapes that do not fit, and for first_nodes that do not ascend from 0 to N.
Tensor pool(Pooling pooling, const Tensor& x, const Array& first_nodes);

}  // namespace tapestry
