#pragma once

#include <optional>

#include "autograd/ops/convolution.hpp"
#include "layers/mlp.hpp"
#include "layers/norm.hpp"

namespace tapestry {

struct Convolution2dOptions {
  std::int64_t kernel = 3;  // K
  std::int64_t stride = 1, padding = 0;
};

// A convolution: x (B, in, H, W) -> (B, out, H', W'), with weight (out, in, K, K) and bias (out).
// Both start uniform in ±1/√(in K²), PyTorch's default.
class Convolution2d final : public Module {
 public:
  Parameter weight, bias;
  ConvolutionOptions options;

  Convolution2d(std::int64_t in, std::int64_t out, Random& init,
                const Convolution2dOptions& wanted = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// A transposed convolution: x (B, in, H', W') -> (B, out, height, width), where 0 is the smallest
// size, with weight (in, out, K, K) and bias (out). Both start uniform in ±1/√(out K²), PyTorch's
// default.
class TransposedConvolution2d final : public Module {
 public:
  Parameter weight, bias;
  ConvolutionOptions options;

  TransposedConvolution2d(std::int64_t in, std::int64_t out, Random& init,
                          const Convolution2dOptions& wanted = {});
  Tensor forward(const Tensor& x, std::int64_t height = 0, std::int64_t width = 0) const;
  void fields(FieldVisitor& visit) override;
};

struct ResidualConvolutionOptions {
  std::int64_t kernel = 3;  // K, odd
  std::int64_t stride = 1;  // of the first convolution
  std::int64_t groups = 0;  // of the group norms; 0: no norms
  Activation activation = Activation::relu;
};

// A residual block (He et al. 2015, arXiv 1512.03385, §3.2, with group norms): x (B, in, H, W) ->
// activation(norm(second(activation(norm(first(x))))) + shortcut(x)) (B, out, ⌈H / stride⌉,
// ⌈W / stride⌉). The shortcut is x, or a 1 × 1 convolution where the shape changes. The constructor
// throws std::invalid_argument for an even kernel.
class ResidualConvolution final : public Module {
 public:
  Activation activation;
  Convolution2d first, second;
  std::optional<GroupNorm> first_norm, second_norm;
  std::optional<Convolution2d> shortcut;

  ResidualConvolution(std::int64_t in, std::int64_t out, Random& init,
                      const ResidualConvolutionOptions& options = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

struct ConvolutionStackOptions {
  std::int64_t channels_in = 1, height = 28, width = 28;  // C, H, W: size of the images
  std::vector<std::int64_t> channels{32, 64};             // number of features of each convolution
  Activation activation = Activation::relu;
};

// A stack of 3 × 3 convolutions of stride 2, each followed by the activation: images (B, C · H · W)
// -> features (B, D · h · w). Each convolution halves height and width, rounded up. The constructor
// throws std::invalid_argument without channels.
class ConvolutionStack final : public Module {
 public:
  ConvolutionStackOptions options;
  std::vector<Convolution2d> layers;  // modules named "0", "1", …

  ConvolutionStack(const ConvolutionStackOptions& wanted, Random& init);
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// The reverse stack of transposed convolutions: features (B, D · h · w) -> images (B, C · H · W),
// with the activation between the layers and none at the end. The constructor throws
// std::invalid_argument without channels.
class TransposedConvolutionStack final : public Module {
 public:
  ConvolutionStackOptions options;
  std::vector<TransposedConvolution2d> layers;  // modules named "0", "1", …

  TransposedConvolutionStack(const ConvolutionStackOptions& wanted, Random& init);
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// The size of an image or of the features of a convolution.
struct Planes {
  std::int64_t channels, height, width;

  std::int64_t size() const { return channels * height * width; }
  bool operator==(const Planes&) const = default;
};
// Returns the size of the image, then that of the features of each convolution. Throws
// std::invalid_argument without channels.
std::vector<Planes> stack_planes(const ConvolutionStackOptions& options);

// Returns D · h · w, the number of features of an image. Throws std::invalid_argument without
// channels.
std::int64_t stack_features(const ConvolutionStackOptions& options);

}  // namespace tapestry
