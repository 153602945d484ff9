#pragma once

#include "layers/convolution.hpp"

namespace tapestry {

enum class Downsampling { max, average, stride };

struct ConvolutionalClassifierOptions {
  std::int64_t channels_in = 1, height = 28, width = 28;  // of an image: 1 gray, 3 color
  std::int64_t classes = 10;
  std::vector<std::int64_t> channels{16, 32};  // number of features of each stage
  std::int64_t kernel = 3;                     // K
  // Zeros around the planes of each stage, in a network without blocks; empty: ⌊(K - 1) / 2⌋.
  std::vector<std::int64_t> padding{};
  // The operation that halves height and width: pooling of windows of 2 × 2, or convolutions of
  // stride 2.
  Downsampling downsampling = Downsampling::max;
  std::int64_t blocks = 0;             // residual blocks of a stage; 0: one convolution
  std::int64_t groups = 0;             // of the group norms; 0: no norms
  std::vector<std::int64_t> hidden{};  // widths of the linear layers before the last
  double dropout = 0;                  // rate for the inputs of the linear layers
  Activation activation = Activation::relu;
};

// A convolutional network that classifies images: images (B, channels_in · height · width), or with
// these as axes, -> logits (B, classes).
//
// Without blocks (LeNet-5: LeCun et al. 1998, "Gradient-based learning applied to document
// recognition", §II.B), each stage is a convolution, norm and activation, and halves the planes.
// Linear layers read all features. With blocks (He et al. 2015, arXiv 1512.03385), a convolution
// comes first, stages of residual blocks follow, with half the height and width from each to the
// next, and linear layers read the mean of each plane.
//
// The constructor throws std::invalid_argument for options that do not fit, and for images that are
// too small.
class ConvolutionalClassifier final : public Module {
 public:
  ConvolutionalClassifierOptions options;
  std::vector<Convolution2d> convolutions;  // of each stage, or the one before the blocks
  std::vector<GroupNorm> norms;             // of these convolutions
  std::vector<ResidualConvolution> blocks;
  Dropout dropout;
  Mlp head;

  ConvolutionalClassifier(const ConvolutionalClassifierOptions& wanted, Random& init);

  // Returns logits (B, classes). `noise` is for dropout; null: evaluation.
  Tensor forward(const Tensor& images, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

// Returns the size of an image's features after the last stage; height or width is 0 if the image
// is too small. Throws std::invalid_argument for lists that do not fit.
Planes features_of(const ConvolutionalClassifierOptions& options);

}  // namespace tapestry
