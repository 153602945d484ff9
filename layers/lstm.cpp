#include "layers/lstm.hpp"

#include "autograd/ops/gated_recurrence.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

Lstm::Lstm(std::int64_t width, std::int64_t state_width, Random& init, bool bias)
    : input(width, 4 * state_width, init, {.bias = bias}),
      hidden(state_width, 4 * state_width, init, {.bias = false}) {}

Tensor Lstm::zero_state(std::int64_t batch) const {
  return Array::zeros({batch, 2 * hidden.weight.tensor.dim(1)}, hidden.dtype());
}

Tensor Lstm::forward(const Tensor& x, const Tensor& initial, Tensor* last) const {
  const Scope scope(path());
  Array state;
  Tensor states = lstm(input.forward(x), hidden.weight, initial, last ? &state : nullptr);
  if (last) *last = state;
  return states;
}

TAPESTRY_FIELDS(Lstm, input, hidden)

}  // namespace tapestry
