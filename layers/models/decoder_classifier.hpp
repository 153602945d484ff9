#pragma once

#include "layers/models/transformer.hpp"

namespace tapestry {

// A classifier of texts on a decoder-only transformer: tokens (B, T) int32 -> logits (B, classes).
// Rows are padded with padding(). The transformer reads them from left to right, and a linear map
// without bias reads its hidden state at the last token of each row that is no padding (Radford et
// al. 2018, "Improving language understanding by generative pre-training"). Padding does not change
// the logits. The parameters have the names of a Transformer's, without its head, and "score".
// Throws std::invalid_argument for tokens outside of [0, V + 1) and for rows beyond the context.
class DecoderClassifier final : public Module {
 public:
  Transformer transformer;  // with tied embeddings, so that it has no head
  Linear score;  // (classes, C), which has initial values under SkipInitialValues as well

  DecoderClassifier(const TransformerOptions& wanted, std::int64_t classes, Random& init);

  std::int32_t padding() const { return static_cast<std::int32_t>(transformer.options.vocabulary); }

  // `noise` is for dropout; null: evaluation.
  Tensor forward(const Array& tokens, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
