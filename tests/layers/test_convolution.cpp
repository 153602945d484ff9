#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops.hpp"
#include "layers/convolution.hpp"
#include "layers/convolution_stack.hpp"
#include "layers/graph_layers.hpp"
#include "tests/support/graphs.hpp"
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

// --- along time ---

TEST_CASE("convolution: windows, with zeros around the sequence, by hand") {
  const Array x = Array::of(std::vector{1.0, 2.0, 3.0, 4.0}, {1, 4, 1});
  CHECK(doubles(unfold(x, {.before = 1, .after = 1}).value()) ==
        std::vector<double>{0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 0});
  CHECK(doubles(unfold(x, {.width = 2, .stride = 2}).value()) == std::vector<double>{1, 2, 3, 4});
  CHECK(unfold(x, {.width = 5}).shape() == Shape{1, 0, 5});
  Random r = init();
  Convolution1d layer(1, 1, r, {.before = 2});
  layer.convert(f64);
  set(layer.kernel.weight, {100, 10, 1});
  set(layer.kernel.bias, {0.5});
  CHECK(doubles(layer.forward(x).value()) == std::vector<double>{1.5, 12.5, 123.5, 234.5});
}

TEST_CASE("convolution: is graph convolution on a path whose weights depend on the position") {
  constexpr std::int64_t T = 11, C = 3, O = 4;
  Random r = init();
  Convolution1d along_time(C, O, r, {.before = 1, .after = 1});
  randomised(along_time, f64);
  // One graph a relative position: its edges lead from t - 1, and from t + 1, to t.
  Edges from_before, from_after;
  for (std::int32_t t = 1; t < T; ++t) {
    from_before.push_back({t - 1, t});
    from_after.push_back({t, t - 1});
  }
  const GraphConvolution::Options plain{.activation = Activation::none};
  GraphConvolution before(C, O, r, plain), after(C, O, r, plain);
  before.convert(f64), after.convert(f64);
  const Tensor kernel = along_time.kernel.weight;  // (O, 3 · C): W_0, W_1, W_2
  const auto part = [&](std::int64_t k) {
    return doubles(slice(kernel, 1, k * C, (k + 1) * C).value());
  };
  set(before.neighbours.weight, part(0));
  set(before.own->weight, part(1));
  set(after.neighbours.weight, part(2));
  set(after.own->weight, std::vector<double>(O * C, 0));
  set(before.bias, doubles(along_time.kernel.bias.value()));
  const Array x = normal({T, C});
  const Tensor by_graph =
      before.forward(Adjacency(T, from_before), x) + after.forward(Adjacency(T, from_after), x);
  check_close(along_time.forward(x.reshaped({1, T, C})).value(),
              by_graph.value().reshaped({1, T, O}));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
