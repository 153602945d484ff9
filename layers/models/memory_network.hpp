#pragma once

#include <memory>
#include <optional>

#include "autograd/ops/activations.hpp"
#include "autograd/ops/softmax.hpp"
#include "layers/embedding.hpp"
#include "layers/mlp.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/multi_head_attention.hpp"

// A summary of a sequence x_1 … x_n at its last element. The nine subclasses lead from a sum to
// multi-head attention, each with one idea more, and have equal output widths for comparison. W are
// weight matrices and b biases.
namespace tapestry {

class Memory : public Module {
 public:
  // Returns the summary: x (B, T, C) -> (B, C), with n = T. Throws std::invalid_argument for other
  // shapes and T = 0.
  Tensor forward(const Tensor& x) const;

  // Returns the weights (B, H, T) of the elements, which have no gradient, if the memory is an
  // attention, else an empty array.
  virtual Array weights(const Tensor&) const { return {}; }

 private:
  virtual Tensor recall(const Tensor& x) const = 0;
};

// Σ (W x_i + b): all elements have the same weight.
class CompositeSum final : public Memory {
 public:
  Linear value;

  CompositeSum(std::int64_t width, Random& init) : value(width, width, init) {}
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// Σ γ^(n-i) W x_i with 0 < γ < 1: weights decay with age. A learned γ has a value for each column.
// The constructor throws std::invalid_argument for another γ.
class ExponentialForgetting final : public Memory {
 public:
  Linear value;
  double gamma;                    // initial value
  std::optional<Parameter> decay;  // (C), γ = σ(decay), if it is learned

  struct Options {
    double gamma = 0.9;
    bool learn = false;
  };
  ExponentialForgetting(std::int64_t width, Random& init, const Options& options);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// h_n = tanh(W_x x_n + W_h h_(n-1) + b): a recurrent network. W_h starts as γ I, so that it begins
// as exponential forgetting with a tanh (after Le et al. 2015, arXiv 1504.00941, where γ = 1).
class RecurrentMemory final : public Memory {
 public:
  Recurrent network;

  RecurrentMemory(std::int64_t width, Random& init, double gamma = 0.9);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// h_n = σ(W_g x_n + b_g) ⊙ h_(n-1) + W x_n + b: each element decides how much is forgotten (the
// forget gate of Gers et al. 2000, "Learning to Forget"). All gates start at γ. The constructor
// throws std::invalid_argument unless 0 < γ < 1.
class ForgettingGate final : public Memory {
 public:
  Linear gate, value;

  ForgettingGate(std::int64_t width, Random& init, double gamma = 0.9);
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// Σ a_i W x_i, where subclasses compute the weights a from the scores of the elements.
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

// a_i = σ(w·x_i + b): each element decides its own weight.
class SigmoidAttention final : public WeightedSum {
 public:
  SigmoidAttention(std::int64_t width, Random& init) : WeightedSum(width, true, init) {}

 private:
  Tensor normalize(const Tensor& scores) const override { return sigmoid(scores); }
};

// a = softmax(q·x) with one learned query q: the weights sum to 1 (Yang et al. 2016, "Hierarchical
// Attention Networks", eq. 6).
class SoftmaxAttention final : public WeightedSum {
 public:
  SoftmaxAttention(std::int64_t width, Random& init) : WeightedSum(width, false, init) {}

 private:
  Tensor normalize(const Tensor& scores) const override { return softmax(scores); }
};

// (1/n) Σ (q_n·k_i) v_i: attention with the last element as query, without softmax (a fast weight
// memory; Schmidhuber 1992). With suitable weights it is a step of gradient descent on the pairs of
// a sequence (von Oswald et al. 2023, arXiv 2212.07677, proposition 1).
class LinearAttention final : public Memory {
 public:
  Attention attention;  // its maps, without biases; its softmax is not used

  LinearAttention(std::int64_t width, Random& init)
      : attention(width, width, width, init, {.bias = false}) {}
  Array weights(const Tensor& x) const override { return weigh(x).value(); }
  void fields(FieldVisitor& visit) override;

 private:
  Tensor weigh(const Tensor& x) const;
  Tensor recall(const Tensor& x) const override;
};

// softmax(q_n Kᵀ / √C) V: attention with the last element as query (Vaswani et al. 2017, eq. 1).
class QueryKeyMemory final : public Memory {
 public:
  Attention attention;

  QueryKeyMemory(std::int64_t width, Random& init) : attention(width, width, width, init) {}
  Array weights(const Tensor& x) const override;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor recall(const Tensor& x) const override;
};

// Query-key attention with several heads (ibid., §3.2.2).
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

// The subclasses of Memory, in the order above.
enum class MemoryKind {
  sum,
  forgetting,
  recurrent,
  gated,
  sigmoid_attention,
  softmax_attention,
  linear_attention,
  query_key,
  multi_head,
};

struct MemoryOptions {
  MemoryKind kind = MemoryKind::query_key;
  std::int64_t width = 32;
  std::int64_t heads = 4;                  // heads of multi-head memory; must divide the width
  ExponentialForgetting::Options decay{};  // of forgetting; recurrent and gated use only its gamma
};

std::unique_ptr<Memory> make_memory(const MemoryOptions& options, Random& init);

struct MemoryNetworkOptions {
  std::int64_t vocabulary = 0, classes = 0;
  std::int64_t hidden = 64;  // width of the readout
  MemoryOptions memory{};
};

// A network that answers the question at the end of a sequence of T items of S symbols each, from
// the summary of all items and the last item: symbols (B, T, S) int32 in [0, V) -> logits
// (B, classes).
class MemoryNetwork final : public Module {
 public:
  Embedding embedding;  // starts as N(0, 1)
  std::unique_ptr<Memory> memory;
  Mlp readout;  // (3C, hidden, classes): reads the memory, the question and their product

  MemoryNetwork(const MemoryNetworkOptions& options, Random& init);
  Tensor forward(const Array& symbols) const;
  Array weights(const Array& symbols) const;  // returns the weights of the memory
  void fields(FieldVisitor& visit) override;

 private:
  Tensor embed(const Array& symbols) const;
};

struct MemoryRegressorOptions {
  std::int64_t inputs = 0;  // F, numbers of an item
  MemoryOptions memory{};
};

// A network that answers a question with a number, from the summary of T items of F numbers each,
// of which the last is the question: x (B, T, F) -> (B).
class MemoryRegressor final : public Module {
 public:
  Linear embedding;  // (C, F), without bias
  std::unique_ptr<Memory> memory;
  Linear readout;  // (1, C)

  MemoryRegressor(const MemoryRegressorOptions& options, Random& init);
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
