#include "layers/gru.hpp"

#include <cmath>

#include "autograd/ops/gated_recurrence.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

Gru::Gru(std::int64_t width, std::int64_t state_width, Random& init, bool bias)
    : input(width, 3 * state_width, init, {.bias = bias}),
      hidden(state_width, 3 * state_width, init, {.bias = false}),
      candidate_bias(bias ? initial_uniform({state_width},
                                            1 / std::sqrt(static_cast<double>(state_width)), init)
                          : Array(),
                     Role::bias) {}

Tensor Gru::zero_state(std::int64_t batch) const {
  return Array::zeros({batch, hidden.weight.tensor.dim(1)}, hidden.dtype());
}

Tensor Gru::forward(const Tensor& x, const Tensor& initial, Tensor* last) const {
  const Scope scope(path());
  Tensor states = gru(input.forward(x), hidden.weight, candidate_bias, initial);
  if (last) *last = last_state(states, initial);
  return states;
}

void Gru::fields(FieldVisitor& visit) {
  visit("input", input);
  visit("hidden", hidden);
  if (!candidate_bias.tensor.value().empty()) visit("candidate_bias", candidate_bias);
}

}  // namespace tapestry
