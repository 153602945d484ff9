#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops.hpp"
#include "layers/models/convolutional_classifier.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
// Uses GELU, because ReLU has a kink at 0.
std::vector<LayerRow> convolution_layers() {
  Random r = init();
  const Array x = normal({2, 3, 5, 4});
  const auto noisy = [](const auto& model, In in) {
    Random noise(1, Stream::dropout);
    return model.forward(in[0], &noise);
  };
  const ConvolutionStackOptions stack{
      .height = 5, .width = 6, .channels = {2, 3}, .activation = Activation::gelu};
  ConvolutionStackOptions color = stack;
  color.channels_in = 3, color.width = 4, color.channels = {2};
  return {
      make_row("Convolution2d", Convolution2d(3, 2, r), forward, {x}),
      make_row("Convolution2d: stride", Convolution2d(3, 2, r, {.stride = 2, .padding = 1}),
               forward, {x}),
      make_row("TransposedConvolution2d", TransposedConvolution2d(3, 2, r), forward, {x}),
      make_row(
          "TransposedConvolution2d: stride",
          TransposedConvolution2d(3, 2, r, {.stride = 2, .padding = 1}),
          [](const TransposedConvolution2d& layer, In in) { return layer.forward(in[0], 10, 7); },
          {x}),
      make_row("ConvolutionStack", ConvolutionStack(stack, r), forward, {normal({2, 30})}),
      make_row("TransposedConvolutionStack", TransposedConvolutionStack(stack, r), forward,
               {normal({2, 12})}),
      make_row("ConvolutionStack: color", ConvolutionStack(color, r), forward, {normal({2, 60})}),
      make_row("TransposedConvolutionStack: color", TransposedConvolutionStack(color, r), forward,
               {normal({2, 12})}),
      make_row("GroupNorm", GroupNorm(6, {.groups = 2}), forward, {normal({2, 6, 3, 2})}),
      make_row("ResidualConvolution: shortcut x",
               ResidualConvolution(3, 3, r, {.activation = Activation::gelu}), forward, {x}),
      make_row(
          "ResidualConvolution: shortcut convolution",
          ResidualConvolution(3, 4, r, {.stride = 2, .groups = 2, .activation = Activation::gelu}),
          forward, {x}),
      make_row("ConvolutionalClassifier: plain",
               ConvolutionalClassifier({.channels_in = 3,
                                        .height = 7,
                                        .width = 9,
                                        .classes = 3,
                                        .channels = {2, 4},
                                        .padding = {0, 1},
                                        .downsampling = Downsampling::average,
                                        .groups = 2,
                                        .hidden = {5},
                                        .dropout = 0.2,
                                        .activation = Activation::gelu},
                                       r),
               noisy, {normal({2, 3, 7, 9})}),
      make_row("ConvolutionalClassifier: stride",
               ConvolutionalClassifier({.height = 5,
                                        .width = 6,
                                        .classes = 3,
                                        .channels = {2, 3},
                                        .downsampling = Downsampling::stride,
                                        .activation = Activation::gelu},
                                       r),
               noisy, {normal({2, 30})}),
      make_row("ConvolutionalClassifier: residual",
               ConvolutionalClassifier({.height = 5,
                                        .width = 6,
                                        .classes = 3,
                                        .channels = {2, 4},
                                        .blocks = 2,
                                        .groups = 2,
                                        .activation = Activation::gelu},
                                       r),
               noisy, {normal({2, 30})}),
  };
}

namespace {

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: convolutions are initialized as in PyTorch") {
  Random r = init();
  const Convolution2d forth(8, 32, r);
  const TransposedConvolution2d back(32, 8, r);
  const double bound = 1 / std::sqrt(8 * 9.0);
  for (const Array& values : {forth.weight.value(), forth.bias.value(), back.weight.value()}) {
    double largest = 0;
    for (const double value : doubles(values)) largest = std::max(largest, std::abs(value));
    CHECK(largest <= bound);
    CHECK(largest > 0.8 * bound);
  }
}

TEST_CASE(
    "layers: a stack of convolutions halves images, and the transposed one restores the size") {
  Random r = init();
  for (const auto& [height, width, features] :
       {std::tuple{28, 28, 5 * 7 * 7}, {27, 30, 5 * 7 * 8}, {1, 3, 5 * 1 * 1}}) {
    const ConvolutionStackOptions options{.height = height, .width = width, .channels = {2, 5}};
    CHECK(stack_features(options) == features);
    const Tensor y = ConvolutionStack(options, r).forward(pixels({3, height * width}, f32));
    CHECK(y.shape() == Shape{3, features});
    CHECK(TransposedConvolutionStack(options, r).forward(y).shape() == Shape{3, height * width});
  }
}

TEST_CASE("layers: a convolutional classifier has the channels of its options") {
  Random r = init();
  const ConvolutionalClassifierOptions lenet{
      .channels = {6, 16}, .kernel = 5, .padding = {2, 0}, .hidden = {120, 84}};
  const auto check = [&](const ConvolutionalClassifierOptions& options, const Shape& features) {
    const Planes last = features_of(options);
    CHECK(Shape{last.channels, last.height, last.width} == features);
    ConvolutionalClassifier model(options, r);
    const Shape flat{2, options.channels_in * options.height * options.width};
    const Array images = pixels(flat, f32);
    const Array logits = model.forward(images).value();
    CHECK(logits.shape() == Shape{2, options.classes});
    const Shape axes{2, options.channels_in, options.height, options.width};
    CHECK(doubles(model.forward(images.reshaped(axes)).value()) == doubles(logits));
    std::int64_t parameters = 0;
    for (const Parameter* parameter : model.parameters()) parameters += parameter->value().size();
    return parameters;
  };
  CHECK(check(lenet, {16, 5, 5}) == 61'706);  // from PyTorch's tutorials
  ConvolutionalClassifierOptions color = lenet;
  color.channels_in = 3;
  CHECK(check(color, {16, 5, 5}) == 61'706 + 2 * 6 * 25);
  check({.height = 9, .width = 6, .downsampling = Downsampling::average}, {32, 2, 1});
  check({.height = 9, .width = 6, .downsampling = Downsampling::stride}, {32, 3, 2});
  check({.height = 9, .width = 6, .blocks = 1}, {32, 4, 3});
  check({.height = 9, .width = 6, .downsampling = Downsampling::stride, .blocks = 2}, {32, 5, 3});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
