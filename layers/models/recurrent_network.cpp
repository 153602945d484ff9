#include "layers/models/recurrent_network.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/scan.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

Recurrent::Recurrent(std::int64_t width, std::int64_t state_width, Random& init, bool bias)
    : input(width, state_width, init, {.bias = bias}),
      hidden(state_width, state_width, init, {.bias = false}) {}

Tensor Recurrent::forward(const Tensor& x, const Tensor& initial) const {
  const Scope scope(path());
  return tanh_recurrence(input.forward(x), hidden.weight, initial);
}

TAPESTRY_FIELDS(Recurrent, input, hidden)

RecurrentNetwork::RecurrentNetwork(const RecurrentNetworkOptions& wanted, Random& init)
    : options(wanted),
      token_embedding(options.vocabulary, options.width, init),
      dropout(options.dropout) {
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers.emplace_back(options.width, options.width, init, options.bias);
  if (options.tied_embeddings) return;
  head.emplace(options.width, options.vocabulary, init, LinearOptions{.bias = options.bias});
  head->weight.role = Role::head;
}

Tensor RecurrentNetwork::forward(const Array& tokens, Random* noise) const {
  return logits(hidden(tokens, noise));
}

Tensor RecurrentNetwork::forward(const Array& tokens, std::vector<Tensor>& states) const {
  return logits(hidden(tokens, nullptr, &states));
}

Tensor RecurrentNetwork::hidden(const Array& tokens, Random* noise) const {
  return hidden(tokens, noise, nullptr);
}

Tensor RecurrentNetwork::logits(const Tensor& hidden) const {
  const Scope scope(path());
  return head ? head->forward(hidden) : linear(hidden, token_embedding.weight);
}

Tensor RecurrentNetwork::hidden(const Array& tokens, Random* noise,
                                std::vector<Tensor>* states) const {
  const Scope scope(path());
  require(!states || states->size() == layers.size(),
          "recurrent network: {} states for {} layers; expected one for each",
          states ? states->size() : 0, layers.size());
  require(tokens.rank() == 2 && tokens.dim(1) >= 1,
          "recurrent network: tokens {}; expected (B, T) with T >= 1", tokens.shape());
  const std::int64_t B = tokens.dim(0), T = tokens.dim(1), C = options.width;
  Tensor x = dropout.forward(token_embedding.forward(tokens), noise);  // (B, T, C)
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = layers[i].forward(x, states ? (*states)[i] : Tensor());
    if (states) (*states)[i] = reshape(slice(x, 1, T - 1, T), {B, C});
    x = dropout.forward(x, noise);
  }
  return x;
}

std::vector<Tensor> RecurrentNetwork::make_states(std::int64_t batch) const {
  const Array zeros = Array::zeros({batch, options.width}, token_embedding.weight.tensor.dtype());
  return std::vector<Tensor>(layers.size(), zeros);
}

TAPESTRY_FIELDS(RecurrentNetwork, token_embedding, dropout, layers, head)

}  // namespace tapestry
