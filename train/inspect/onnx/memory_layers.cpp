#include <cmath>

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

// Sums up what all later gates leave of each value: log_gates and values (B, T, C) -> (B, C).
Value forgotten(const Value& log_gates, const Value& values) {
  return sum(exp(sum_after(log_gates, 1)) * values, 1);
}

Value recall(const ExponentialForgetting& memory, const Value& x) {
  const Value values = forward(memory.value, x);
  const Value rate = memory.decay ? log_of_sigmoid(x.graph->parameter(*memory.decay))
                                  : x.graph->constant(std::log(memory.gamma));  // (C) or ()
  return forgotten(expand(rate, lengths(values)), values);
}

Value recall(const RecurrentMemory& memory, const Value& x) {
  return last(forward(memory.network, x), 1);
}

Value recall(const ForgettingGate& memory, const Value& x) {
  const Value log_gates = log_of_sigmoid(forward(memory.gate, x));
  return forgotten(log_gates, forward(memory.value, x));
}

Value recall(const SigmoidAttention& memory, const Value& x) {
  const Value weights = sigmoid(transpose(forward(memory.score, x), {0, 2, 1}));  // (B, 1, T)
  return squeeze(matmul(weights, forward(memory.value, x)), 1);
}

Value recall(const SoftmaxAttention& memory, const Value& x) {
  const Value weights = softmax(transpose(forward(memory.score, x), {0, 2, 1}));  // (B, 1, T)
  return squeeze(matmul(weights, forward(memory.value, x)), 1);
}

Value recall(const QueryKeyMemory& memory, const Value& x) {
  return squeeze(forward(memory.attention, last_element(x), x), 1);
}

Value recall(const MultiHeadMemory& memory, const Value& x) {
  return squeeze(forward(memory.attention, last_element(x), x), 1);
}

}  // namespace

Value forward(const MemoryNetwork& model, const Value& symbols) {
  const Within module(symbols, model.path());
  const Value x = sum(forward(model.embedding, symbols), 2);  // (B, T, C)
  const Value question = last(x, 1);
  const Value recalled = [&] {
    const Within memory(x, model.memory->path());
    return by_kind<CompositeSum, ExponentialForgetting, RecurrentMemory, ForgettingGate,
                   SigmoidAttention, SoftmaxAttention, QueryKeyMemory, MultiHeadMemory>(
        *model.memory, [&](const auto& own) { return recall(own, x); });
  }();
  return forward(model.readout, concat({recalled, question, recalled * question}, -1));
}

}  // namespace tapestry::onnx
