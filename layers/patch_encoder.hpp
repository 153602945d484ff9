#pragma once

#include "layers/transformer_block.hpp"

namespace tapestry {

// What a classifier reads of encoded tokens: a class token, or their mean.
enum class Readout { class_token, mean };

struct PatchEncoderOptions {
  std::int64_t patches = 49;  // N, number of patches of an input
  std::int64_t values = 16;   // P, number of values of a patch
  std::int64_t layers = 4;
  TransformerBlockOptions block{};
  bool class_token = false;  // a learned token before the patches
};

// A transformer encoder of patches of an image or a time series, after a linear projection and
// positions: x (B, N, P) -> (B, N, C), or (B, 1 + N, C) with the class token first (Dosovitskiy et
// al. 2020, arXiv 2010.11929, eqs. 1 to 4; Nie et al. 2022, arXiv 2211.14730, §3.1).
class PatchEncoder final : public Module {
 public:
  PatchEncoderOptions options;
  Linear projection;
  Dropout dropout;
  Encoder encoder;
  std::optional<Parameter> class_token;  // (1, C)
  PositionalEncoding position_embedding;
  std::optional<Norm> final_norm;  // only with pre-norm

  PatchEncoder(const PatchEncoderOptions& wanted, Random& init);

  std::int64_t tokens() const;  // returns N, or 1 + N with a class token
  // Returns (B, tokens(), C). `noise` is for dropout; null: evaluation. Throws
  // std::invalid_argument for other shapes.
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
