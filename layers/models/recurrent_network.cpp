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
  return forward(tokens, noise, nullptr);
}

Tensor RecurrentNetwork::forward(const Array& tokens, std::vector<Tensor>& states) const {
  return forward(tokens, nullptr, &states);
}

Tensor RecurrentNetwork::forward(const Array& tokens, Random* noise,
                                 std::vector<Tensor>* states) const {
  const Scope scope(path());
  require(tokens.rank() == 2 && tokens.dim(1) >= 1,
          "recurrent network: tokens {}; expected (B, T) with T >= 1", tokens.shape());
  const Tensor x = stack.forward(token_embedding.forward(tokens), noise, states);  // (B, T, C)
  return head ? head->forward(x) : linear(x, token_embedding.weight);              // (B, T, V)
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
