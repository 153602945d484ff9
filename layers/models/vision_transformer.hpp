#pragma once

#include "layers/patch_encoder.hpp"

namespace tapestry {

struct VisionTransformerOptions {
  std::int64_t channels_in = 1, height = 28, width = 28;  // of an image: 1 gray, 3 color
  std::int64_t patch = 4;  // side of a square patch in pixels; divides both
  std::int64_t classes = 10;
  std::int64_t layers = 4;
  TransformerBlockOptions block{};
  Readout readout = Readout::class_token;  // the head reads this token, or the mean of the patches
};

// A vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929), which encodes square patches as
// tokens: images (B, channels_in · height · width) -> logits (B, classes). Throws
// std::invalid_argument for other sizes.
class VisionTransformer final : public Module {
 public:
  VisionTransformerOptions options;
  PatchEncoder patches;
  Linear head;

  VisionTransformer(const VisionTransformerOptions& wanted, Random& init);

  // Returns logits (B, classes). `noise` is for dropout; null: evaluation.
  Tensor forward(const Tensor& images, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

// Returns how the patches of images are encoded. Throws std::invalid_argument if they do not tile
// the images.
PatchEncoderOptions patch_encoder_options(const VisionTransformerOptions& options);

// Returns the patches, row by row, each as planes of its channels: images (B, channels_in · height
// · width) -> (B, N, channels_in · patch²). Throws std::invalid_argument for images of another
// size.
Tensor cut_squares(const Tensor& images, const VisionTransformerOptions& options);

}  // namespace tapestry
