#include "layers/recurrent.hpp"

#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/scan.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

Recurrent::Recurrent(std::int64_t width, std::int64_t state_width, Random& init, bool bias)
    : input(width, state_width, init, {.bias = bias}),
      hidden(state_width, state_width, init, {.bias = false}) {}

Tensor Recurrent::forward(const Tensor& x, const Tensor& initial) const {
  const Scope scope(path());
  return tanh_recurrence(input.forward(x), hidden.weight, initial);
}

Tensor Recurrent::step(const Tensor& x, const Tensor& state) const {
  const Scope scope(path());
  return tanh(input.forward(x) + hidden.forward(state));
}

void Recurrent::fields(FieldVisitor& visit) {
  visit("input", input);
  visit("hidden", hidden);
}

}  // namespace tapestry
