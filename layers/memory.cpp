#include "layers/memory.hpp"

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

// The last element, its axis kept: x (B, T, C) -> (B, 1, C).
Tensor last(const Tensor& x) { return slice(x, 1, x.dim(1) - 1, x.dim(1)); }

// Without its axis: (B, 1, C) -> (B, C).
Tensor alone(const Tensor& x) { return reshape(x, {x.dim(0), x.dim(2)}); }

// softmax(q kᵀ / √D): q (B, 1, H · D), k (B, T, H · D) -> (B, H, T).
Tensor attention_weights(const Tensor& q, const Tensor& k, std::int64_t H) {
  const std::int64_t B = k.dim(0), T = k.dim(1), D = k.dim(2) / H;
  const auto heads = [&](const Tensor& x) {
    return permute(reshape(x, {B, x.dim(1), H, D}), {0, 2, 1, 3});
  };
  const Tensor products = matmul(heads(q), heads(k), {.transpose_b = true});  // (B, H, 1, T)
  return reshape(softmax(products * (1 / std::sqrt(static_cast<double>(D)))), {B, H, T});
}

using Made = std::unique_ptr<Memory>;

template <class M>
Made make(const MemoryOptions& options, Random& init) {
  return std::make_unique<M>(options.width, init);
}

struct Kind {
  std::string_view name;
  Made (*make)(const MemoryOptions& options, Random& init);
};

constexpr Kind kinds[] = {
    {"sum", make<CompositeSum>},
    {"forgetting",
     [](const MemoryOptions& options, Random& init) -> Made {
       return std::make_unique<ExponentialForgetting>(options.width, init, options.decay);
     }},
    {"recurrent", make<RecurrentMemory>},
    {"gated", make<ForgettingGate>},
    {"sigmoid-attention", make<SigmoidAttention>},
    {"softmax-attention", make<SoftmaxAttention>},
    {"query-key", make<QueryKeyMemory>},
    {"multi-head", [](const MemoryOptions& options, Random& init) -> Made {
       return std::make_unique<MultiHeadMemory>(options.width, options.heads, init);
     }}};

}  // namespace

Tensor Memory::forward(const Tensor& x) const {
  require(x.rank() == 3 && x.dim(1) >= 1, "memory: x {}", to_string(x.shape()));
  const Scope scope(path());
  return recall(x);
}

// --- sums ---

Tensor CompositeSum::recall(const Tensor& x) const { return sum(value.forward(x), {1}); }

void CompositeSum::fields(FieldVisitor& visit) { visit("value", value); }

ExponentialForgetting::ExponentialForgetting(std::int64_t width, Random& init,
                                             const Options& options)
    : value(width, width, init, {.bias = false}), gamma(options.gamma) {
  require(gamma > 0 && gamma < 1, "exponential forgetting: γ = {}", gamma);
  if (options.learn) decay.emplace(Array::full({width}, std::log(gamma / (1 - gamma))), Role::bias);
}

Tensor ExponentialForgetting::recall(const Tensor& x) const {
  const Tensor rate = decay ? sigmoid(*decay) : Tensor(Array::full({}, gamma, x.dtype()));
  return alone(last(linear_recurrence(rate, value.forward(x))));
}

void ExponentialForgetting::fields(FieldVisitor& visit) {
  visit("value", value);
  if (decay) visit("decay", *decay);
}

// --- states ---

Tensor RecurrentMemory::recall(const Tensor& x) const { return alone(last(network.forward(x))); }

void RecurrentMemory::fields(FieldVisitor& visit) { visit("network", network); }

Tensor ForgettingGate::recall(const Tensor& x) const {
  return alone(last(linear_recurrence(sigmoid(gate.forward(x)), value.forward(x))));
}

void ForgettingGate::fields(FieldVisitor& visit) {
  visit("gate", gate);
  visit("value", value);
}

// --- attention ---

Tensor WeightedSum::weights(const Tensor& x) const {
  return weigh(reshape(score.forward(x), {x.dim(0), 1, x.dim(1)}));
}

Tensor WeightedSum::recall(const Tensor& x) const {
  return alone(matmul(weights(x), value.forward(x)));
}

void WeightedSum::fields(FieldVisitor& visit) {
  visit("score", score);
  visit("value", value);
}

Tensor QueryKeyMemory::weights(const Tensor& x) const {
  return attention_weights(attention.query.forward(last(x)), attention.key.forward(x), 1);
}

Tensor QueryKeyMemory::recall(const Tensor& x) const {
  return alone(attention.forward(last(x), x));
}

void QueryKeyMemory::fields(FieldVisitor& visit) { visit("attention", attention); }

Tensor MultiHeadMemory::weights(const Tensor& x) const {
  const Tensor keys = slice(attention.key_value->forward(x), -1, 0, x.dim(2));
  return attention_weights(attention.query->forward(last(x)), keys, attention.heads);
}

Tensor MultiHeadMemory::recall(const Tensor& x) const {
  return alone(attention.forward(last(x), x));
}

void MultiHeadMemory::fields(FieldVisitor& visit) { visit("attention", attention); }

// --- by name ---

const std::vector<std::string>& memory_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Kind& kind : kinds) all.emplace_back(kind.name);
    return all;
  }();
  return names;
}

std::unique_ptr<Memory> make_memory(const MemoryOptions& options, Random& init) {
  for (const Kind& kind : kinds)
    if (kind.name == options.kind) return kind.make(options, init);
  throw std::invalid_argument(fmt::format("memory: no kind {}", options.kind));
}

// --- the network around it ---

MemoryNetwork::MemoryNetwork(const MemoryNetworkOptions& options, Random& init)
    : embedding(options.vocabulary, options.memory.width, init,
                std::getenv("EMB") ? std::atof(std::getenv("EMB")) : 1),
      memory(make_memory(options.memory, init)),
      readout({2 * options.memory.width, options.hidden, options.classes}, init) {
  parameters();  // names the modules
}

Tensor MemoryNetwork::forward(const Array& tokens) const {
  const Scope scope(path());
  const Tensor x = embedding.forward(tokens);  // (B, T, C)
  return readout.forward(concat({memory->forward(x), alone(last(x))}, -1));
}

Tensor MemoryNetwork::weights(const Array& tokens) const {
  return memory->weights(embedding.forward(tokens));
}

void MemoryNetwork::fields(FieldVisitor& visit) {
  visit("embedding", embedding);
  visit("memory", *memory);
  visit("readout", readout);
}

}  // namespace tapestry
