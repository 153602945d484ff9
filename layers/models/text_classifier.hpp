#pragma once

#include "layers/embedding.hpp"
#include "layers/patch_encoder.hpp"
#include "layers/recurrent.hpp"

namespace tapestry {

struct TextClassifierOptions {
  std::int64_t tokens = 0;    // V, of the tokenizer
  std::int64_t context = 64;  // most tokens of a row
  std::int64_t classes = 2;
  std::int64_t layers = 4;  // 0: averaged embeddings, without positions, or recurrent layers
  TransformerBlockOptions block{};
  std::optional<RecurrentStackOptions> recurrent{};  // only with 0 layers and readout by the mean
  Readout readout = Readout::mean;  // what the head reads: a class token, or the mean of the tokens
};

// A classifier of texts: tokens (B, T) int32 -> logits (B, classes). Rows begin with first_token(),
// if there is one, and are padded with padding(). The tokens are encoded by a transformer
// without causal mask (Devlin et al. 2018, arXiv 1810.04805), read by recurrent layers from left to
// right, whose outputs are averaged, or only embedded and averaged (fastText; Joulin et al. 2016,
// arXiv 1607.01759). Padding does not change the logits. Throws
// std::invalid_argument for tokens outside of [0, V + 2) and for rows beyond the context.
class TextClassifier final : public Module {
 public:
  TextClassifierOptions options;
  Embedding token_embedding;  // of V tokens, padding, and the class token
  PositionalEncoding position_embedding;
  Dropout dropout;
  Encoder encoder;
  std::optional<RecurrentStack> recurrent;
  std::optional<Norm> final_norm;  // only with pre-norm
  Linear head;

  TextClassifier(const TextClassifierOptions& wanted, Random& init);

  std::int32_t padding() const { return static_cast<std::int32_t>(options.tokens); }
  // Returns the class token, or nothing if the head reads the mean of all tokens.
  std::optional<std::int32_t> first_token() const;

  // `noise` is for dropout; null: evaluation.
  Tensor forward(const Array& tokens, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor pooled(const Tensor& x, const Array& padding) const;  // (B, T, C) -> (B, C)
};

}  // namespace tapestry
