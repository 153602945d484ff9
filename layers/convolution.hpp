#pragma once

#include "autograd/ops/convolution.hpp"
#include "layers/module.hpp"

namespace tapestry {

struct Convolution2dOptions {
  std::int64_t kernel = 3;  // K
  std::int64_t stride = 1, padding = 0;
};

// x (B, in, H, W) -> convolution2d(x, weight) + bias (B, out, H', W'). weight (out, in, K, K),
// bias (out), both uniform in ±1/√(in K²) at first, PyTorch's default.
class Convolution2d final : public Module {
 public:
  Parameter weight, bias;
  ConvolutionOptions options;

  Convolution2d(std::int64_t in, std::int64_t out, Random& init,
                const Convolution2dOptions& wanted = {});
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;
};

// x (B, in, H', W') -> transposed_convolution2d(x, weight) + bias (B, out, H, W), where H and W are
// as asked for, or the smallest. weight (in, out, K, K), bias (out), both uniform in ±1/√(out K²)
// at first, PyTorch's default.
class TransposedConvolution2d final : public Module {
 public:
  Parameter weight, bias;
  ConvolutionOptions options;

  TransposedConvolution2d(std::int64_t in, std::int64_t out, Random& init,
                          const Convolution2dOptions& wanted = {});
  Tensor forward(const Tensor& x, std::int64_t height = 0, std::int64_t width = 0) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
