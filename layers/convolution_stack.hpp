#pragma once

#include "layers/convolution.hpp"
#include "layers/feed_forward.hpp"

namespace tapestry {

struct ConvolutionStackOptions {
  std::int64_t height = 28, width = 28;        // H, W: of the images
  std::vector<std::int64_t> channels{32, 64};  // of each convolution's features, from the image
  Activation activation = Activation::relu;
};

// Grey images (B, H W) -> features (B, C h w): 3 × 3 convolutions of stride 2, each followed by the
// activation. Each halves height and width, an odd one rounded up.
class ConvolutionStack final : public Module {
 public:
  ConvolutionStackOptions options;
  std::vector<Convolution2d> layers;  // "0", "1", …

  ConvolutionStack(const ConvolutionStackOptions& wanted, Random& init);
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// The way back, features (B, C h w) -> grey images (B, H W): the same sizes and channels in
// reverse, with the activation between the layers and none at the end.
class TransposedConvolutionStack final : public Module {
 public:
  ConvolutionStackOptions options;
  std::vector<TransposedConvolution2d> layers;  // "0", "1", …

  TransposedConvolutionStack(const ConvolutionStackOptions& wanted, Random& init);
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// The extents of an image, or of the features that a convolution makes of it.
struct Planes {
  std::int64_t channels, height, width;
};
// The image first, then what each convolution makes of the one before.
std::vector<Planes> stack_planes(const ConvolutionStackOptions& options);

// C h w, the features between the two.
std::int64_t stack_features(const ConvolutionStackOptions& options);

}  // namespace tapestry
