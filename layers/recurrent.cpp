#include "layers/recurrent.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/scan.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"
#include "layers/gru.hpp"
#include "layers/lstm.hpp"

namespace tapestry {
namespace {

std::unique_ptr<RecurrentLayer> make_recurrent(const RecurrentStackOptions& options,
                                               std::int64_t inputs, Random& init) {
  switch (options.kind) {
    case RecurrentKind::elman:
      return std::make_unique<Recurrent>(inputs, options.width, init, options.bias);
    case RecurrentKind::lstm:
      return std::make_unique<Lstm>(inputs, options.width, init, options.bias);
    case RecurrentKind::gru:
      return std::make_unique<Gru>(inputs, options.width, init, options.bias);
  }
  throw_unhandled("recurrent layer");
}

}  // namespace

Tensor last_state(const Tensor& states, const Tensor& initial) {
  const std::int64_t B = states.dim(0), T = states.dim(1), H = states.dim(2);
  if (T > 0) return reshape(slice(states, 1, T - 1, T), {B, H});
  return initial.value().empty() ? Tensor(Array::zeros({B, H}, states.dtype())) : initial;
}

Recurrent::Recurrent(std::int64_t width, std::int64_t state_width, Random& init, bool bias)
    : input(width, state_width, init, {.bias = bias}),
      hidden(state_width, state_width, init, {.bias = false}) {}

Tensor Recurrent::zero_state(std::int64_t batch) const {
  return Array::zeros({batch, hidden.weight.tensor.dim(1)}, hidden.dtype());
}

Tensor Recurrent::forward(const Tensor& x, const Tensor& initial, Tensor* last) const {
  const Scope scope(path());
  Tensor states = tanh_recurrence(input.forward(x), hidden.weight, initial);
  if (last) *last = last_state(states, initial);
  return states;
}

TAPESTRY_FIELDS(Recurrent, input, hidden)

RecurrentStack::RecurrentStack(const RecurrentStackOptions& wanted, Random& init)
    : options(wanted), dropout(options.dropout) {
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers.push_back(make_recurrent(options, i == 0 ? options.inputs : options.width, init));
}

Tensor RecurrentStack::forward(const Tensor& x, Random* noise, std::vector<Tensor>* states) const {
  const Scope scope(path());
  require(!states || states->size() == layers.size(),
          "recurrent network: {} states for {} layers; expected one for each",
          states ? states->size() : 0, layers.size());
  Tensor y = dropout.forward(x, noise);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    y = states ? layers[i]->forward(y, (*states)[i], &(*states)[i]) : layers[i]->forward(y);
    y = dropout.forward(y, noise);
  }
  return y;
}

std::vector<Tensor> RecurrentStack::make_states(std::int64_t batch) const {
  std::vector<Tensor> states;
  for (const auto& layer : layers) states.push_back(layer->zero_state(batch));
  return states;
}

TAPESTRY_FIELDS(RecurrentStack, dropout, layers)

}  // namespace tapestry
