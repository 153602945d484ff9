#pragma once

#include "layers/patch_encoder.hpp"

namespace tapestry {

enum class Readout { class_token, mean };

struct VisionTransformerOptions {
  std::int64_t height = 28, width = 28;  // of an image, in pixels
  std::int64_t patch = 4;                // a side of a square of pixels; divides both
  std::int64_t classes = 10;
  std::int64_t layers = 4;
  TransformerBlockOptions block{};
  Readout readout = Readout::class_token;  // what is read out: that token, or the patches' mean
};

// The vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929): an image is cut into squares,
// row by row, which an encoder reads as tokens. images (B, height · width) -> logits (B, classes).
class VisionTransformer final : public Module {
 public:
  VisionTransformerOptions options;
  PatchEncoder patches;
  Linear head;

  VisionTransformer(const VisionTransformerOptions& wanted, Random& init);

  // `noise` is dropout's; null: evaluate.
  Tensor forward(const Tensor& images, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

// images (B, height · width) -> (B, N, patch²): the squares, each row by row.
Tensor cut_squares(const Tensor& images, std::int64_t width, std::int64_t patch);

}  // namespace tapestry
