#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "layers/models/tabular_network.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
namespace {

// Three numbers, with four bins, none, and two.
const std::vector<std::vector<double>> edges{{-2, -1, 0.5, 1, 3}, {0, 1}, {-1, 0.25, 1}};

}  // namespace

// Uses GELU, because ReLU has a kink at 0, and numbers that are no edges of bins, beside which the
// encoding has one.
std::vector<LayerRow> tabular_layers() {
  Random r = init();
  const Array x =
      Array::of(std::vector<double>{-2.5, 0.3, -1.5, 0.1, -0.7, 0.6, 3.4, 2, 1.7}, {3, 3});
  const Array rows =
      Array::of(std::vector<double>{-2.5, 0.3, -1.5, 0, 2, 0.1, -0.7, 0.6, 3, 1}, {2, 5});
  const auto noisy = [](const TabularNetwork& model, In in) {
    Random noise(1, Stream::dropout);
    return model.forward(in[0], &noise);
  };
  const TabularNetworkOptions options{.edges = edges,
                                      .outputs = 2,
                                      .number_width = 3,
                                      .layers = 2,
                                      .width = 4,
                                      .dropout = 0.2,
                                      .members = 3,
                                      .activation = Activation::gelu};
  TabularNetworkOptions with_categories = options, single = options;
  with_categories.categories = {4, 3};
  single.members = 1;
  single.number_width = 0;
  return {make_row("NumberEmbedding", NumberEmbedding(edges, 2, r), forward, {x}),
          make_row("TabularNetwork", TabularNetwork(options, r), noisy, {x}),
          make_row("TabularNetwork: scaled numbers", TabularNetwork(single, r), noisy, {x}),
          make_row("TabularNetwork: categories", TabularNetwork(with_categories, r),
                   [rows](const TabularNetwork& model, In) {
                     return model.forward(rows.to(model.head.tensor.dtype()));
                   },
                   {})};
}

namespace {

TEST_SUITE_BEGIN("layers");

// The encoding of Gorishniy et al. 2022, eq. 1, by hand: with weight 0, bias 0 and the pieces the
// unit matrix, the embedding is the encoding.
TEST_CASE("layers: numbers have a piecewise-linear encoding") {
  Random r = init();
  NumberEmbedding layer({{0, 1, 3}}, 2, r);
  layer.parameters();
  for (Parameter* parameter : layer.parameters())
    std::ranges::fill(parameter->value().mutable_values<float>(), 0.0F);
  const auto pieces = layer.pieces.value().mutable_values<float>();
  pieces[0] = pieces[3] = 1;
  const Tensor y = layer.forward(Array::of(std::vector<float>{-0.5, 0.25, 2, 5}, {4, 1}));
  CHECK(doubles(y.value()) == std::vector<double>{-0.5, 0, 0.25, 0, 1, 0.5, 1, 2});
}

TEST_CASE("layers: members of an ensemble of tables differ only by their factors and heads") {
  Random r = init();
  TabularNetwork model({.edges = {{}, {}}, .outputs = 1, .width = 8, .members = 4}, r);
  model.parameters();
  for (const float factor : model.factors->value().values<float>()) CHECK(std::abs(factor) == 1);
  const Tensor y = model.forward(Array::of(std::vector<float>{0.5, -1, 2, 0.25}, {2, 2}));
  CHECK(y.shape() == Shape{2, 4, 1});
  CHECK_THROWS_WITH_AS(model.forward(Array::zeros({2, 3})), doctest::Contains("(B, 2)"),
                       std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
