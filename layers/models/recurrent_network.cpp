#include "layers/models/recurrent_network.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

RecurrentNetwork::RecurrentNetwork(const RecurrentNetworkOptions& wanted, Random& init)
    : options(wanted),
      token_embedding(options.vocabulary, options.width, init),
      stack({.kind = options.kind,
             .layers = options.layers,
             .inputs = options.width,
             .width = options.width,
             .dropout = options.dropout,
             .bias = options.bias},
            init) {
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
  require(tokens.rank() == 2 && tokens.dim(1) >= 1,
          "recurrent network: tokens {}; expected (B, T) with T >= 1", tokens.shape());
  return stack.forward(token_embedding.forward(tokens), noise, states);
}

std::vector<Tensor> RecurrentNetwork::make_states(std::int64_t batch) const {
  return stack.make_states(batch);
}

void RecurrentNetwork::fields(FieldVisitor& visit) {
  visit("token_embedding", token_embedding);
  stack.fields(visit);
  visit("head", head);
}

}  // namespace tapestry
