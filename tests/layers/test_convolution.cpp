#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops.hpp"
#include "layers/convolution.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
// ReLU bends at 0; GELU does not.
std::vector<LayerRow> convolution_layers() {
  Random r = init();
  const Array x = normal({2, 3, 5, 4});
  const ConvolutionStackOptions stack{
      .height = 5, .width = 6, .channels = {2, 3}, .activation = Activation::gelu};
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
  };
}

namespace {

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: convolutions start as PyTorch's do") {
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

TEST_CASE("layers: a stack of convolutions halves images, and its mirror restores their size") {
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

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
