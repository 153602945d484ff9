#include "layers/convolution.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"
#include "layers/module.hpp"

namespace tapestry {
namespace {

double bound(std::int64_t channels, std::int64_t kernel) {
  return 1 / (static_cast<double>(kernel) * std::sqrt(static_cast<double>(channels)));
}

}  // namespace

Convolution2d::Convolution2d(std::int64_t in, std::int64_t out, Random& init,
                             const Convolution2dOptions& wanted)
    : weight(
          initial_uniform({out, in, wanted.kernel, wanted.kernel}, bound(in, wanted.kernel), init),
          Role::weight),
      bias(initial_uniform({out}, bound(in, wanted.kernel), init), Role::bias),
      options{.stride = wanted.stride, .padding = wanted.padding} {}

Tensor Convolution2d::forward(const Tensor& x) const {
  const Scope scope(path());
  return convolution2d(x, weight, options, bias);
}

TAPESTRY_FIELDS(Convolution2d, weight, bias)

TransposedConvolution2d::TransposedConvolution2d(std::int64_t in, std::int64_t out, Random& init,
                                                 const Convolution2dOptions& wanted)
    : weight(
          initial_uniform({in, out, wanted.kernel, wanted.kernel}, bound(out, wanted.kernel), init),
          Role::weight),
      bias(initial_uniform({out}, bound(out, wanted.kernel), init), Role::bias),
      options{.stride = wanted.stride, .padding = wanted.padding} {}

Tensor TransposedConvolution2d::forward(const Tensor& x, std::int64_t height,
                                        std::int64_t width) const {
  const Scope scope(path());
  return transposed_convolution2d(
      x, weight,
      {.stride = options.stride, .padding = options.padding, .height = height, .width = width},
      bias);
}

TAPESTRY_FIELDS(TransposedConvolution2d, weight, bias)

namespace {

Convolution2dOptions keeping_size(const ResidualConvolutionOptions& options, std::int64_t stride) {
  require(options.kernel % 2 == 1, "residual convolution: kernel {}; expected an odd number",
          options.kernel);
  return {.kernel = options.kernel, .stride = stride, .padding = options.kernel / 2};
}

}  // namespace

ResidualConvolution::ResidualConvolution(std::int64_t in, std::int64_t out, Random& init,
                                         const ResidualConvolutionOptions& options)
    : activation(options.activation),
      first(in, out, init, keeping_size(options, options.stride)),
      second(out, out, init, keeping_size(options, 1)) {
  if (options.groups > 0) {
    first_norm.emplace(out, GroupNormOptions{.groups = options.groups});
    second_norm.emplace(out, GroupNormOptions{.groups = options.groups});
  }
  if (in != out || options.stride > 1)
    shortcut.emplace(in, out, init, Convolution2dOptions{.kernel = 1, .stride = options.stride});
}

Tensor ResidualConvolution::forward(const Tensor& x) const {
  const Scope scope(path());
  Tensor y = first.forward(x);
  if (first_norm) y = first_norm->forward(y);
  y = second.forward(activate(activation, y));
  if (second_norm) y = second_norm->forward(y);
  return activate(activation, y + (shortcut ? shortcut->forward(x) : x));
}

TAPESTRY_FIELDS(ResidualConvolution, first, first_norm, second, second_norm, shortcut)

namespace {

constexpr Convolution2dOptions halving{.kernel = 3, .stride = 2, .padding = 1};

}  // namespace

std::vector<Planes> stack_planes(const ConvolutionStackOptions& options) {
  require(!options.channels.empty(),
          "convolution stack: channels is empty; expected one number for each convolution");
  std::vector<Planes> planes{
      {.channels = options.channels_in, .height = options.height, .width = options.width}};
  for (const std::int64_t channels : options.channels)
    planes.push_back({.channels = channels,
                      .height = (planes.back().height + 1) / 2,
                      .width = (planes.back().width + 1) / 2});
  return planes;
}

std::int64_t stack_features(const ConvolutionStackOptions& options) {
  return stack_planes(options).back().size();
}

ConvolutionStack::ConvolutionStack(const ConvolutionStackOptions& wanted, Random& init)
    : options(wanted) {
  const std::vector<Planes> planes = stack_planes(options);
  for (std::size_t i = 0; i + 1 < planes.size(); ++i)
    layers.emplace_back(planes[i].channels, planes[i + 1].channels, init, halving);
}

Tensor ConvolutionStack::forward(const Tensor& x) const {
  const Scope scope(path());
  Tensor y = reshape(x, {x.dim(0), options.channels_in, options.height, options.width});
  for (const Convolution2d& layer : layers) y = activate(options.activation, layer.forward(y));
  return reshape(y, {x.dim(0), stack_features(options)});
}

void ConvolutionStack::fields(FieldVisitor& visit) {
  for (std::size_t i = 0; i < layers.size(); ++i) visit(std::to_string(i), layers[i]);
}

TransposedConvolutionStack::TransposedConvolutionStack(const ConvolutionStackOptions& wanted,
                                                       Random& init)
    : options(wanted) {
  const std::vector<Planes> planes = stack_planes(options);
  for (std::size_t i = planes.size() - 1; i > 0; --i)
    layers.emplace_back(planes[i].channels, planes[i - 1].channels, init, halving);
}

Tensor TransposedConvolutionStack::forward(const Tensor& x) const {
  const Scope scope(path());
  const std::vector<Planes> planes = stack_planes(options);
  const Planes& first = planes.back();
  Tensor y = reshape(x, {x.dim(0), first.channels, first.height, first.width});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Planes& next = planes[layers.size() - 1 - i];
    if (i > 0) y = activate(options.activation, y);
    y = layers[i].forward(y, next.height, next.width);
  }
  return reshape(y, {x.dim(0), planes.front().size()});
}

void TransposedConvolutionStack::fields(FieldVisitor& visit) {
  for (std::size_t i = 0; i < layers.size(); ++i) visit(std::to_string(i), layers[i]);
}

}  // namespace tapestry
