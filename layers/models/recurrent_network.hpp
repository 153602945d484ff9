#pragma once

#include <optional>

#include "layers/embedding.hpp"
#include "layers/linear.hpp"
#include "layers/recurrent.hpp"

namespace tapestry {

struct RecurrentNetworkOptions {
  std::int64_t vocabulary = 0;
  std::int64_t layers = 1, width = 256;
  RecurrentKind kind = RecurrentKind::elman;
  double dropout = 0;
  bool bias = true;              // of the layers' input maps and of the head
  bool tied_embeddings = false;  // the head uses the token embedding
};

// A recurrent language model (Mikolov et al. 2010, "Recurrent neural network based language
// model"): an embedding, recurrent layers and a linear head compute the logits of the next token,
// tokens (B, T) int32 in [0, V) -> (B, T, V).
class RecurrentNetwork final : public Module {
 public:
  RecurrentNetworkOptions options;
  Embedding token_embedding;
  RecurrentStack stack;        // its fields are named as if they were those of the model
  std::optional<Linear> head;  // null with tied embeddings

  RecurrentNetwork(const RecurrentNetworkOptions& wanted, Random& init);

  // Returns the logits, starting from states of zeros. `noise` is for dropout; null: evaluation.
  // Throws std::invalid_argument for T = 0, here and below.
  Tensor forward(const Array& tokens, Random* noise = nullptr) const;

  // Return the hidden states (B, T, C) that the head reads, and the logits (…, V) of such states.
  Tensor hidden(const Array& tokens, Random* noise = nullptr) const;
  Tensor logits(const Tensor& hidden) const;

  // Return states of zeros (B, S), one per layer, and the logits of tokens read from given states,
  // which are updated. For generation. Throws std::invalid_argument for another number of states.
  std::vector<Tensor> make_states(std::int64_t batch) const;
  Tensor forward(const Array& tokens, std::vector<Tensor>& states) const;

  void fields(FieldVisitor& visit) override;

 private:
  Tensor hidden(const Array& tokens, Random* noise, std::vector<Tensor>* states) const;
};

}  // namespace tapestry
