#include "layers/models/vision_transformer.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

PatchEncoderOptions patch_encoder_options(const VisionTransformerOptions& options) {
  const std::int64_t P = options.patch;
  require(P >= 1 && options.height % P == 0 && options.width % P == 0,
          "vision transformer: patches of {0} × {0} do not tile images of {1} × {2}; expected a "
          "divisor of both sides",
          P, options.height, options.width);
  return {.patches = options.height / P * (options.width / P),
          .values = options.channels_in * P * P,
          .layers = options.layers,
          .block = options.block,
          .class_token = options.readout == Readout::class_token};
}

Tensor cut_squares(const Tensor& images, const VisionTransformerOptions& options) {
  const std::int64_t B = images.dim(0), C = options.channels_in, P = options.patch;
  const std::int64_t rows = options.height / P, columns = options.width / P;
  const Tensor squares = permute(reshape(images, {B, C, rows, P, columns, P}), {0, 2, 4, 1, 3, 5});
  return reshape(squares, {B, rows * columns, C * P * P});
}

VisionTransformer::VisionTransformer(const VisionTransformerOptions& wanted, Random& init)
    : options(wanted),
      patches(patch_encoder_options(options), init),
      head(options.block.width, options.classes, init) {
  head.weight.role = Role::head;
}

Tensor VisionTransformer::forward(const Tensor& images, Random* noise) const {
  const Scope scope(path());
  const std::int64_t C = options.channels_in, H = options.height, W = options.width;
  require(images.rank() == 2 && images.dim(1) == C * H * W,
          "vision transformer: images {}; expected (B, {} · {} · {})", images.shape(), C, H, W);
  const Tensor x = patches.forward(cut_squares(images, options), noise);
  const bool first = options.readout == Readout::class_token;
  const Tensor pooled = first ? reshape(slice(x, 1, 0, 1), {x.dim(0), x.dim(2)}) : mean(x, {1});
  return head.forward(pooled);  // (B, C) -> (B, classes)
}

TAPESTRY_FIELDS(VisionTransformer, patches, head)

}  // namespace tapestry
