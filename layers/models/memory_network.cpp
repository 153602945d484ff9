#include "layers/models/memory_network.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/scan.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// Returns the last element with its axis: x (B, T, C) -> (B, 1, C).
Tensor last(const Tensor& x) { return slice(x, 1, x.dim(1) - 1, x.dim(1)); }

// Removes the axis of one element: (B, 1, C) -> (B, C).
Tensor alone(const Tensor& x) { return reshape(x, {x.dim(0), x.dim(2)}); }

// Returns the attention weights of one query in each head: q (B, 1, C), k (B, T, C) -> (B, H, T).
Array weights_of(const Tensor& q, const Tensor& k, std::int64_t heads) {
  const Array weights = attention_weights(q.value(), k.value(), {.heads = heads});
  return weights.reshaped({weights.dim(0), weights.dim(1), weights.dim(3)});
}

// Returns σ⁻¹(γ). Throws std::invalid_argument unless 0 < γ < 1.
double logit(double gamma) {
  require_value(gamma > 0 && gamma < 1, "memory", "gamma", gamma, "a number above 0 and below 1");
  return std::log(gamma / (1 - gamma));
}

}  // namespace

Tensor Memory::forward(const Tensor& x) const {
  require(x.rank() == 3 && x.dim(1) >= 1, "memory: x {}; expected (B, T, C) with T >= 1",
          x.shape());
  const Scope scope(path());
  return recall(x);
}

// --- sums ---

Tensor CompositeSum::recall(const Tensor& x) const { return sum(value.forward(x), {1}); }

TAPESTRY_FIELDS(CompositeSum, value)

ExponentialForgetting::ExponentialForgetting(std::int64_t width, Random& init,
                                             const Options& options)
    : value(width, width, init, {.bias = false}), gamma(options.gamma) {
  const Array start = Array::full({width}, logit(gamma));
  if (options.learn) decay.emplace(start, Role::bias);
}

Tensor ExponentialForgetting::recall(const Tensor& x) const {
  const Tensor rate = decay ? sigmoid(*decay) : Tensor(Array::full({}, gamma, x.dtype()));
  return alone(last(linear_recurrence(rate, value.forward(x))));
}

TAPESTRY_FIELDS(ExponentialForgetting, value, decay)

// --- states ---

RecurrentMemory::RecurrentMemory(std::int64_t width, Random& init, double gamma)
    : network(width, width, init) {
  Array start = Array::zeros({width, width});
  for (std::int64_t i = 0; i < width; ++i)
    start.mutable_values<float>()[i * (width + 1)] = static_cast<float>(gamma);
  network.hidden.weight.value().copy_from(start);
}

Tensor RecurrentMemory::recall(const Tensor& x) const { return alone(last(network.forward(x))); }

TAPESTRY_FIELDS(RecurrentMemory, network)

ForgettingGate::ForgettingGate(std::int64_t width, Random& init, double gamma)
    : gate(width, width, init), value(width, width, init) {
  gate.weight.value().copy_from(Array::zeros({width, width}));
  gate.bias.value().copy_from(Array::full({width}, logit(gamma)));
}

Tensor ForgettingGate::recall(const Tensor& x) const {
  return alone(last(linear_recurrence(sigmoid(gate.forward(x)), value.forward(x))));
}

TAPESTRY_FIELDS(ForgettingGate, gate, value)

// --- attention ---

// Returns the weights of the elements: x (B, T, C) -> (B, 1, T).
Tensor WeightedSum::weigh(const Tensor& x) const {
  return normalize(reshape(score.forward(x), {x.dim(0), 1, x.dim(1)}));
}

Tensor WeightedSum::recall(const Tensor& x) const {
  return alone(matmul(weigh(x), value.forward(x)));
}

TAPESTRY_FIELDS(WeightedSum, score, value)

// Returns the weights of the elements: x (B, T, C) -> (B, 1, T).
Tensor LinearAttention::weigh(const Tensor& x) const {
  return matmul(attention.query.forward(last(x)), attention.key.forward(x), {.transpose_b = true}) *
         (1 / static_cast<double>(x.dim(1)));
}

Tensor LinearAttention::recall(const Tensor& x) const {
  return alone(matmul(weigh(x), attention.value.forward(x)));
}

TAPESTRY_FIELDS(LinearAttention, attention)

Array QueryKeyMemory::weights(const Tensor& x) const {
  return weights_of(attention.query.forward(last(x)), attention.key.forward(x), 1);
}

Tensor QueryKeyMemory::recall(const Tensor& x) const {
  return alone(attention.forward(last(x), x));
}

TAPESTRY_FIELDS(QueryKeyMemory, attention)

Array MultiHeadMemory::weights(const Tensor& x) const {
  return weights_of(attention.query.forward(last(x)), attention.project(x).key(),
                    attention.options.heads);
}

Tensor MultiHeadMemory::recall(const Tensor& x) const {
  return alone(attention.forward(last(x), x));
}

TAPESTRY_FIELDS(MultiHeadMemory, attention)

// --- by kind ---

std::unique_ptr<Memory> make_memory(const MemoryOptions& options, Random& init) {
  const std::int64_t C = options.width;
  switch (options.kind) {
    case MemoryKind::sum:
      return std::make_unique<CompositeSum>(C, init);
    case MemoryKind::forgetting:
      return std::make_unique<ExponentialForgetting>(C, init, options.decay);
    case MemoryKind::recurrent:
      return std::make_unique<RecurrentMemory>(C, init, options.decay.gamma);
    case MemoryKind::gated:
      return std::make_unique<ForgettingGate>(C, init, options.decay.gamma);
    case MemoryKind::sigmoid_attention:
      return std::make_unique<SigmoidAttention>(C, init);
    case MemoryKind::softmax_attention:
      return std::make_unique<SoftmaxAttention>(C, init);
    case MemoryKind::linear_attention:
      return std::make_unique<LinearAttention>(C, init);
    case MemoryKind::query_key:
      return std::make_unique<QueryKeyMemory>(C, init);
    case MemoryKind::multi_head:
      return std::make_unique<MultiHeadMemory>(C, options.heads, init);
  }
  throw_unhandled("memory");
}

// --- the networks ---

MemoryNetwork::MemoryNetwork(const MemoryNetworkOptions& options, Random& init)
    : embedding(options.vocabulary, options.memory.width, init, 1),
      memory(make_memory(options.memory, init)),
      readout({3 * options.memory.width, options.hidden, options.classes}, init) {
  readout.layers.back().weight.role = Role::head;
}

// Returns the items, sums of their symbols: (B, T, S) -> (B, T, C).
Tensor MemoryNetwork::embed(const Array& symbols) const {
  return sum(embedding.forward(symbols), {2});
}

Tensor MemoryNetwork::forward(const Array& symbols) const {
  const Scope scope(path());
  const Tensor x = embed(symbols);
  const Tensor recalled = memory->forward(x), question = alone(last(x));
  return readout.forward(concat({recalled, question, recalled * question}, -1));
}

Array MemoryNetwork::weights(const Array& symbols) const { return memory->weights(embed(symbols)); }

TAPESTRY_FIELDS(MemoryNetwork, embedding, memory, readout)

MemoryRegressor::MemoryRegressor(const MemoryRegressorOptions& options, Random& init)
    : embedding(options.inputs, options.memory.width, init, {.bias = false}),
      memory(make_memory(options.memory, init)),
      readout(options.memory.width, 1, init) {
  readout.weight.role = Role::head;
}

Tensor MemoryRegressor::forward(const Tensor& x) const {
  const Scope scope(path());
  const Tensor recalled = memory->forward(embedding.forward(x));
  return reshape(readout.forward(recalled), {x.dim(0)});
}

TAPESTRY_FIELDS(MemoryRegressor, embedding, memory, readout)

}  // namespace tapestry
