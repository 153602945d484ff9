#pragma once

#include <memory>
#include <optional>

#include "autograd/ops/activations.hpp"
#include "autograd/ops/softmax.hpp"
#include "layers/embedding.hpp"
#include "layers/mlp.hpp"
#include "layers/multi_head_attention.hpp"
#include "layers/recurrent.hpp"

// A ladder from memory to attention: eight ways to sum up a sequence x_1 … x_n at its last element,
// each with one idea more than one before it. All give C columns, so that they can be compared.
// θ are linear maps; x̄ is x with a 1 appended, that is, a map with a bias.
namespace tapestry {

class Memory : public Module {
 public:
  // x (B, T, C) -> (B, C), n = T >= 1.
  Tensor forward(const Tensor& x) const;

  // How much each element counts, (B, H, T), where the memory is an attention; else empty. For
  // display: nothing is recorded.
  virtual Array weights(const Tensor&) const { return {}; }

 private:
  virtual Tensor recall(const Tensor& x) const = 0;
};

// Σ θᵀx̄_i: everything counts the same, for ever.
class CompositeSum final : public Memory {
 public:
  Linear value;

  CompositeSum(std::int64_t width, Random& init) : value(width, width, init) {}
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// Σ γ^(n-i) θᵀx_i with 0 < γ < 1: what is old fades. A learnt γ has a value a column.
class ExponentialForgetting final : public Memory {
 public:
  Linear value;
  double gamma;                    // at first
  std::optional<Parameter> decay;  // (C), γ = σ(decay), if it is learnt

  struct Options {
    double gamma = 0.9;
    bool learn = false;
  };
  ExponentialForgetting(std::int64_t width, Random& init, const Options& options);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// h_n = F(x_n, h_(n-1)), F a hyperbolic tangent of a linear map: what is new is mixed with what
// was. Starts as exponential forgetting but for the tangent, its matrix being γ I (after Le et al.
// 2015, arXiv 1504.00941, whose γ is 1).
class RecurrentMemory final : public Memory {
 public:
  Recurrent network;

  RecurrentMemory(std::int64_t width, Random& init, double gamma = 0.9);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// h_n = σ(θ_λᵀx̄_n) ⊙ h_(n-1) + θ_xᵀx̄_n: each element says how much to forget (the forget gate of
// Gers et al. 2000, "Learning to Forget"). Starts as exponential forgetting, every gate at γ.
class ForgettingGate final : public Memory {
 public:
  Linear gate, value;

  ForgettingGate(std::int64_t width, Random& init, double gamma = 0.9);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// Σ w_i θᵀx_i with weights that each kind makes of the scores of the elements.
class WeightedSum : public Memory {
 public:
  Linear score, value;

  Array weights(const Tensor& x) const override { return weigh(x).value(); }
  void fields(FieldVisitor& visit) override;

 protected:
  WeightedSum(std::int64_t width, bool score_bias, Random& init)
      : score(width, 1, init, {.bias = score_bias}), value(width, width, init, {.bias = false}) {}

 private:
  virtual Tensor normalize(const Tensor& scores) const = 0;  // (B, 1, T) -> (B, 1, T)
  Tensor weigh(const Tensor& x) const;
  Tensor recall(const Tensor& x) const override;
};

// w_i = σ(θ_λᵀx̄_i): each element says how much it counts itself.
class SigmoidAttention final : public WeightedSum {
 public:
  SigmoidAttention(std::int64_t width, Random& init) : WeightedSum(width, true, init) {}

 private:
  Tensor normalize(const Tensor& scores) const override { return sigmoid(scores); }
};

// w = softmax(q x): one learnt query, and weights that sum to 1 (Yang et al. 2016, "Hierarchical
// Attention Networks", eq. 6).
class SoftmaxAttention final : public WeightedSum {
 public:
  SoftmaxAttention(std::int64_t width, Random& init) : WeightedSum(width, false, init) {}

 private:
  Tensor normalize(const Tensor& scores) const override { return softmax(scores); }
};

// softmax(q_n Kᵀ / √C) V: the last element asks, and all are asked (Vaswani et al. 2017, eq. 1).
class QueryKeyMemory final : public Memory {
 public:
  Attention attention;

  QueryKeyMemory(std::int64_t width, Random& init) : attention(width, width, width, init) {}
  Array weights(const Tensor& x) const override;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// The same by several heads, each with queries of its own (ibid., §3.2.2).
class MultiHeadMemory final : public Memory {
 public:
  CrossAttention attention;

  MultiHeadMemory(std::int64_t width, std::int64_t heads, Random& init)
      : attention(width, width, init, {.heads = heads}) {}
  Array weights(const Tensor& x) const override;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// The above, in their order.
enum class MemoryKind {
  sum,
  forgetting,
  recurrent,
  gated,
  sigmoid_attention,
  softmax_attention,
  query_key,
  multi_head,
};

struct MemoryOptions {
  MemoryKind kind = MemoryKind::query_key;
  std::int64_t width = 32;
  std::int64_t heads = 4;                  // of multi-head; must divide the width
  ExponentialForgetting::Options decay{};  // of forgetting
};

std::unique_ptr<Memory> make_memory(const MemoryOptions& options, Random& init);

struct MemoryNetworkOptions {
  std::int64_t vocabulary = 0, classes = 0;
  std::int64_t hidden = 64;  // of the readout
  MemoryOptions memory{};
};

// Answers the question that ends a sequence of items, of S symbols each: embeds them, remembers
// them, and reads the answer off the memory and the question.
// symbols (B, T, S) int32 in [0, V) -> logits (B, classes).
class MemoryNetwork final : public Module {
 public:
  Embedding embedding;  // of N(0, 1)
  std::unique_ptr<Memory> memory;
  Mlp readout;  // (3C, hidden, classes): of the memory, the question, and their product

  MemoryNetwork(const MemoryNetworkOptions& options, Random& init);
  Tensor forward(const Array& symbols) const;
  Array weights(const Array& symbols) const;  // the memory's
  void fields(FieldVisitor& visit) override;

 private:
  Tensor embed(const Array& symbols) const;
};

}  // namespace tapestry
