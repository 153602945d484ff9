#pragma once

#include <optional>

#include "layers/dropout.hpp"
#include "layers/embedding.hpp"
#include "layers/recurrent.hpp"

namespace tapestry {

struct RecurrentNetworkOptions {
  std::int64_t vocabulary = 0;
  std::int64_t layers = 1, width = 256;
  double dropout = 0;
  bool bias = true;              // in every Linear
  bool tied_embeddings = false;  // the head reads out with the token embedding
};

// A recurrent language model (Mikolov et al. 2010, "Recurrent neural network based language
// model"): the logits of the next token. Embedding, recurrent layers, a linear head.
// tokens (B, T) int32 in [0, V) -> (B, T, V).
class RecurrentNetwork final : public Module {
 public:
  RecurrentNetworkOptions options;
  Embedding token_embedding;
  Dropout dropout;  // before each recurrent layer and before the head
  std::vector<Recurrent> layers;
  std::optional<Linear> head;  // without tied embeddings

  RecurrentNetwork(const RecurrentNetworkOptions& wanted, Random& init);

  // From states of zero. `noise` is dropout's; null: evaluate.
  Tensor forward(const Array& tokens, Random* noise = nullptr) const;

  // The same for tokens that follow those that led to the states (B, C), one a layer, which move
  // on: generation.
  std::vector<Tensor> make_states(std::int64_t batch) const;
  Tensor forward(const Array& tokens, std::vector<Tensor>& states) const;

  void fields(FieldVisitor& visit) override;

 private:
  Tensor forward(const Array& tokens, Random* noise, std::vector<Tensor>* states) const;
};

}  // namespace tapestry
