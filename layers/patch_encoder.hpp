#pragma once

#include "layers/encoder.hpp"

namespace tapestry {

struct PatchEncoderOptions {
  std::int64_t patches = 49;  // N, of each input
  std::int64_t values = 16;   // P, of each patch
  std::int64_t layers = 4;
  TransformerBlockOptions block{};
  bool class_token = false;  // a learnt token before the patches, to gather what they say
};

// Patches of an image or of a time series, read as the tokens of a sentence:
//   x (B, N, P) -> (B, N, C), or (B, 1 + N, C) with the class token first.
// A linear projection, positions, and a transformer encoder (Dosovitskiy et al. 2020,
// arXiv 2010.11929, eq. 1 to 4; Nie et al. 2022, arXiv 2211.14730, §3.1).
class PatchEncoder final : public Module {
 public:
  PatchEncoderOptions options;
  Linear projection;
  Dropout dropout;
  Encoder encoder;
  std::optional<Parameter> class_token;  // (1, C)
  PositionalEncoding position_embedding;
  std::optional<Norm> final_norm;  // with pre-norm

  PatchEncoder(const PatchEncoderOptions& wanted, Random& init);

  std::int64_t tokens() const;  // N, or 1 + N
  // `noise` is dropout's; null: evaluate.
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
