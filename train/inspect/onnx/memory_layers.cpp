#include <cmath>

#include "autograd/check.hpp"
#include "train/inspect/onnx/layers.hpp"
#include "train/inspect/onnx/models.hpp"

namespace tapestry::onnx {
namespace {

// The last element, its axis kept: x (B, T, C) -> (B, 1, C).
Value last_element(const Value& x) { return unsqueeze(last(x, 1), {1}); }

Value log_of_sigmoid(const Value& x) { return -softplus(-x); }

Value recall(const CompositeSum& memory, const Value& x) {
  return sum(forward(memory.value, x), 1);
}

// Σ γ^(T-1-t) v_t, γ^n as e^(n log γ).
Value recall(const ExponentialForgetting& memory, const Value& x) {
  Graph& graph = *x.graph;
  const Value rate = memory.decay ? log_of_sigmoid(graph.parameter(*memory.decay))
                                  : graph.constant(std::log(memory.gamma));
  const Value length = lengths(x, 1, 2);
  const Value ages = length - graph.constant(std::int64_t{1}) - counted_to(length);  // (T)
  const Value kept = exp(unsqueeze(to_float(ages), {1}) * rate);                     // (T, C or 1)
  return sum(kept * forward(memory.value, x), 1);
}

Value recall(const RecurrentMemory& memory, const Value& x) {
  return last(forward(memory.network, x), 1);
}

// Of each element, what all later gates leave of it.
Value recall(const ForgettingGate& memory, const Value& x) {
  const Value kept = exp(sum_after(log_of_sigmoid(forward(memory.gate, x)), 1));
  return sum(kept * forward(memory.value, x), 1);
}

Value recall(const WeightedSum& memory, const Value& x) {
  const Value scores = transpose(forward(memory.score, x), {0, 2, 1});  // (B, 1, T)
  const bool shared = dynamic_cast<const SoftmaxAttention*>(&memory) != nullptr;
  const Value weights = shared ? softmax(scores) : sigmoid(scores);
  return squeeze(matmul(weights, forward(memory.value, x)), 1);
}

Value recall(const QueryKeyMemory& memory, const Value& x) {
  return squeeze(forward(memory.attention, last_element(x), x), 1);
}

Value recall(const MultiHeadMemory& memory, const Value& x) {
  return squeeze(forward(memory.attention, last_element(x), x), 1);
}

// By the first of these kinds that it is.
template <class Kind, class... Others>
Value recall_by_kind(const Memory& memory, const Value& x) {
  if (const auto* own = dynamic_cast<const Kind*>(&memory)) return recall(*own, x);
  if constexpr (sizeof...(Others) > 0) return recall_by_kind<Others...>(memory, x);
  throw_unhandled("memory");
}

}  // namespace

Value forward(const MemoryNetwork& model, const Value& symbols) {
  const Within module(symbols, model.path());
  const Value x = sum(forward(model.embedding, symbols), 2);  // (B, T, C)
  const Value question = last(x, 1);
  const Value recalled = [&] {
    const Within memory(x, model.memory->path());
    return recall_by_kind<CompositeSum, ExponentialForgetting, RecurrentMemory, ForgettingGate,
                          WeightedSum, QueryKeyMemory, MultiHeadMemory>(*model.memory, x);
  }();
  return forward(model.readout, concat({recalled, question, recalled * question}, -1));
}

}  // namespace tapestry::onnx
