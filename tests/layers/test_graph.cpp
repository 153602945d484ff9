#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "autograd/ops.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "layers/models/graph_network.hpp"
#include "tests/support/graphs.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
std::vector<LayerRow> graph_layers() {
  Random r = init();
  const Adjacency graph(6,
                        {{0, 1}, {1, 0}, {2, 2}, {0, 2}, {3, 0}, {1, 2}});  // 4 and 5 have no edges
  graph.with_loops();  // so that a dry run finds them computed, as later steps of a training do
  const Array x = normal({6, 3}), first_nodes = ints({0, 2, 2, 6}, {4});
  const auto on_graph = [graph](const auto& layer, In in) { return layer.forward(graph, in[0]); };
  std::vector<LayerRow> rows = {
      make_row("GraphAttention", GraphAttention(3, 4, r, {.activation = Activation::gelu}),
               on_graph, {x}),
      make_row("GraphAttention: heads",
               GraphAttention(3, 4, r, {.heads = 2, .activation = Activation::none}), on_graph,
               {x}),
  };
  for (const bool averages : {false, true})
    rows.push_back(make_row(
        fmt::format("AdditiveGraphAttention: averages {}", averages),
        AdditiveGraphAttention(3, 4, r, {.heads = 2, .averages = averages, .weight_dropout = 0.3}),
        [graph](const AdditiveGraphAttention& layer, In in) {
          Random noise(1, Stream::dropout);
          return layer.forward(graph, in[0], {.noise = &noise});
        },
        {x}));
  rows.push_back(make_row("Gcnii", Gcnii(3, r, {.depth = 2, .activation = Activation::gelu}),
                          [graph](const Gcnii& layer, In in) {
                            return layer.forward(graph, in[0], {.initial = in[1]});
                          },
                          {x, normal({6, 3})}));
  for (const GraphLayerKind kind : {GraphLayerKind::additive_attention, GraphLayerKind::gcnii})
    for (const std::optional<Pooling> pooling :
         {std::optional<Pooling>(), std::optional(Pooling::mean)})
      rows.push_back(make_row(fmt::format("GraphNetwork: kind {}, pooling {}",
                                          static_cast<int>(kind), pooling.has_value()),
                              GraphNetwork({.inputs = 3,
                                            .classes = 2,
                                            .layers = 3,
                                            .width = 4,
                                            .layer = kind,
                                            .heads = 2,
                                            .output_heads = 3,
                                            .activation = Activation::gelu,
                                            .dropout = 0.3,
                                            .weight_dropout = 0.2,
                                            .pooling = pooling},
                                           r),
                              [=](const GraphNetwork& model, In in) {
                                Random noise(1, Stream::dropout);
                                return model.forward(graph, in[0], first_nodes, &noise);
                              },
                              {x}));
  for (const auto& [normalization, name] : {std::pair{Normalization::sum, "sum"},
                                            {Normalization::mean, "mean"},
                                            {Normalization::symmetric, "symmetric"}}) {
    rows.push_back(make_row(
        fmt::format("GraphConvolution: {}", name),
        GraphConvolution(3, 4, r, {.normalization = normalization, .activation = Activation::gelu}),
        on_graph, {x}));
    const std::optional<Pooling> poolings[] = {std::nullopt, Pooling::sum, Pooling::mean,
                                               Pooling::max};
    for (int i = 0; i < 4; ++i)
      rows.push_back(
          make_row(fmt::format("GraphNetwork: {}, pooling {}", name, i),
                   GraphNetwork({.inputs = 3,
                                 .classes = 2,
                                 .width = 4,
                                 .layer = normalization == Normalization::sum && i % 2 == 1
                                              ? GraphLayerKind::attention
                                              : GraphLayerKind::convolution,
                                 .normalization = normalization,
                                 .heads = 2,
                                 .activation = Activation::gelu,
                                 .dropout = 0.3,
                                 .pooling = poolings[i]},
                                r),
                   [=](const GraphNetwork& model, In in) {
                     Random noise(1, Stream::dropout);
                     return model.forward(graph, in[0], first_nodes, &noise);
                   },
                   {x}));
  }
  return rows;
}

namespace {

constexpr GraphLayerKind all_kinds[] = {GraphLayerKind::convolution, GraphLayerKind::attention,
                                        GraphLayerKind::additive_attention, GraphLayerKind::gcnii};

TEST_SUITE_BEGIN("graphs");

Array of(const std::vector<double>& values, const Shape& shape) { return Array::of(values, shape); }

TEST_CASE("graphs: sparse features have the values and gradients of dense ones") {
  const Adjacency graph = random_graph(20, 70, 5);
  Array x = normal({20, 9});
  auto elements = x.mutable_values<double>();
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] *= i % 7 == 0;
  const SparseMatrix sparse = sparse_matrix(x);
  for (const GraphLayerKind kind : all_kinds) {
    Random r = init();
    GraphNetwork model({.inputs = 9, .classes = 3, .width = 4, .layer = kind}, r);
    randomised(model, f64);
    const auto run = [&](const NodeFeatures& features) {
      Tape tape;
      const Tensor y = model.forward(graph, features, {});
      return std::pair(y.value(), tape.backward(sum(y * y)));
    };
    const auto [wanted, wanted_gradients] = run(x);
    const auto [found, gradients] = run({sparse.values, sparse.entries});
    check_close(found, wanted);
    for (const Parameter* parameter : model.parameters())
      check_close(gradients[parameter->tensor], wanted_gradients[parameter->tensor]);
  }
}

TEST_CASE("graphs: a graph convolution multiplies by the normalized adjacency matrix") {
  Random r = init();
  const Tensor x = normal({5, 4}), one = Array::full({5, 1}, 1, f64);
  const auto check = [&](Normalization normalization, const Adjacency& graph, auto matrix_of) {
    GraphConvolution layer(4, 3, r,
                           {.normalization = normalization, .activation = Activation::none});
    randomised(layer, f64);
    const Tensor a = dense(graph, 1, 0);
    Tensor wanted = matmul(matrix_of(a), layer.neighbors.forward(x)) + layer.bias;
    if (layer.own) wanted = wanted + layer.own->forward(x);
    check_close(layer.forward(graph, x).value(), wanted.value());
  };
  const Adjacency graph = random_graph(5, 9, 1);
  check(Normalization::sum, graph, [](const Tensor& a) { return a; });
  check(Normalization::mean, graph, [&](const Tensor& a) {
    return a / max(concat({sum(a, {1}, Keep::yes), one}, 1), {1}, Keep::yes);
  });
  const Adjacency undirected = Adjacency::undirected(5, {{0, 1}, {1, 2}, {3, 1}});
  check(Normalization::symmetric, undirected, [&](const Tensor& a) {
    Array unit = Array::zeros({5, 5}, f64);
    for (std::int64_t i = 0; i < 5; ++i) unit.mutable_values<double>()[6 * i] = 1;
    const Tensor loops = a + unit, root = one / sqrt(sum(loops, {1}, Keep::yes));
    return root * loops * permute(root, {1, 0});
  });
}

TEST_CASE("graphs: graph attention is attention masked by edges, and its weights sum to 1") {
  Random r = init();
  const Adjacency graph = random_graph(20, 70, 5);
  GraphAttention layer(5, 6, r, {.heads = 2, .activation = Activation::none});
  randomised(layer, f64);
  const Array x = normal({20, 5});
  const auto batched = [](const Tensor& t) { return reshape(t, {1, t.dim(0), t.dim(1)}); };
  const Tensor attended = scaled_dot_product_attention(
      batched(layer.query.forward(x)), batched(layer.key.forward(x)),
      batched(layer.value.forward(x)), {.heads = 2, .mask = dense(graph, 0, -infinity)});
  const Tensor wanted = reshape(attended, {20, 6}) + layer.own->forward(x) + layer.bias;
  check_close(layer.forward(graph, x).value(), wanted.value());

  const Tensor weights = layer.weights(graph, x);  // (E, 2)
  const std::vector<double> sums = doubles(segment_sum(weights, graph.incoming().offsets).value());
  const Ints offsets = ints_of(graph.incoming().offsets);
  for (std::size_t j = 0; j < 20; ++j)
    for (std::size_t h = 0; h < 2; ++h)
      CHECK(sums[2 * j + h] == doctest::Approx(offsets[j] < offsets[j + 1] ? 1 : 0));
}

// The expected values are PyTorch's, for the dense form of eqs. 1 to 6 with the same weights.
TEST_CASE("graphs: additive attention has PyTorch's values, with joined and averaged heads") {
  const Adjacency graph(5, {{0, 1}, {2, 1}, {1, 0}, {3, 2}});
  const Array x = of({-2, -1.5, 0, 1.5, 2, 0.5, -1, -0.5, 1, -1.5}, {5, 2});
  const auto layer_with = [](bool averages) {
    Random r = init();
    AdditiveGraphAttention layer(2, averages ? 2 : 4, r,
                                 {.heads = 2,
                                  .averages = averages,
                                  .activation = averages ? Activation::none : Activation::elu});
    layer.convert(f64);
    layer.value.weight.value().copy_from(of({0.5, -0.25, 0.75, 1, -0.5, 0.3, 0.2, -0.6}, {4, 2}));
    layer.target.value().copy_from(of({0.4, -0.3, 0.1, 0.7}, {2, 2}));
    layer.source.value().copy_from(of({-0.2, 0.5, 0.6, -0.4}, {2, 2}));
    layer.bias.value().copy_from(averages ? of({0.1, -0.1}, {2}) : of({0.1, -0.1, 0.2, 0}, {4}));
    return layer;
  };
  check_close(layer_with(false).forward(graph, x).value(),
              of({-0.271160122261,
                  0.656578084142,
                  0.68775406688,
                  -0.310261724131,
                  0.164534401966,
                  0.64318675353,
                  0.307218149697,
                  -0.136736433902,
                  0.569876909657,
                  0.846679965109,
                  0.029922210582,
                  0.1,
                  -0.240427876775,
                  -0.740759739354,
                  0.55,
                  0.1,
                  0.975,
                  -0.572585068051,
                  -0.527633447259,
                  1.1},
                 {5, 4}),
              1e-11);
  check_close(layer_with(true).forward(graph, x).value(),
              of({0.135726424666, 0.09256751023, 0.185876275832, 0.198075762919, 0.249899560119,
                  0.423339982555, 0.0875, -0.675, 0.0625, 0.075},
                 {5, 2}),
              1e-11);
  const Array weights = layer_with(false).weights(graph, x).value();
  CHECK(weights.shape() == Shape{4, 2});  // without loops
  for (const double w : doubles(weights)) CHECK((w > 0 && w < 1));
}

// Two nodes that are neighbors: P has 1/2 everywhere. α = 1/4 and β = log(1/2 · 2 + 1) = log 2.
TEST_CASE("graphs: a layer of GCNII has the values computed by hand") {
  Random r = init();
  Gcnii layer(2, r, {.alpha = 0.25, .lambda = 2, .depth = 2, .activation = Activation::none});
  layer.convert(f64);
  layer.map.weight.value().copy_from(of({1, 2, 3, 4}, {2, 2}));
  const Array x = of({1, 2, 3, 6}, {2, 2}), initial = of({4, 0, 0, 8}, {2, 2});
  const Array y = layer.forward(Adjacency(2, {{0, 1}, {1, 0}}), x, {.initial = initial}).value();
  // (1 - α) P X has the rows (1.5, 3), and with α X₀ they are (2.5, 3) and (1.5, 5).
  const double b = std::log(2);
  check_close(y, of({(1 - b) * 2.5 + b * (2.5 + 6), (1 - b) * 3 + b * (7.5 + 12),
                     (1 - b) * 1.5 + b * (1.5 + 10), (1 - b) * 5 + b * (4.5 + 20)},
                    {2, 2}));
  CHECK(Gcnii(2, r, {.lambda = 0.5, .depth = 4}).beta == doctest::Approx(std::log(1.125)));
  CHECK(misuse_of([&] {
          layer.forward(Adjacency(2, {}), x, {});
        }).starts_with("gcnii: x (2, 2) and initial features"));
}

TEST_CASE("graphs: GCNII with α 0 and β 0 is the symmetric convolution with the unit matrix") {
  Random r = init();
  const Adjacency graph = Adjacency::undirected(6, {{0, 1}, {1, 2}, {3, 1}, {4, 5}});
  Gcnii deep(3, r, {.alpha = 0, .lambda = 0, .activation = Activation::none});
  GraphConvolution convolution(
      3, 3, r, {.normalization = Normalization::symmetric, .activation = Activation::none});
  deep.convert(f64), convolution.convert(f64);
  convolution.neighbors.weight.value().copy_from(of({1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3}));
  const Array x = normal({6, 3});
  check_close(deep.forward(graph, x, {.initial = x}).value(),
              convolution.forward(graph, x).value());
}

// Permutes nodes and features.
TEST_CASE("graphs: permuting nodes permutes the output, and leaves the pooled output unchanged") {
  const std::int64_t N = 30;
  const Adjacency graph = random_graph(N, 90, 6);
  const Array x = normal({N, 4}), first_nodes = Array::of(Ints{0, 30}, {2});
  std::vector<std::int64_t> order(N);  // node v was order[v] before
  for (std::int64_t v = 0; v < N; ++v) order[v] = (7 * v + 3) % N;
  Ints renamed(N);
  for (std::int64_t v = 0; v < N; ++v) renamed[order[v]] = static_cast<std::int32_t>(v);
  Edges moved;
  for (const auto& [from, to] : graph.list()) moved.push_back({renamed[from], renamed[to]});
  const Adjacency permuted(N, moved);
  for (const GraphLayerKind layer : all_kinds)
    for (const Normalization normalization :
         {Normalization::sum, Normalization::mean, Normalization::symmetric})
      for (const std::optional<Pooling> pooling :
           {std::optional<Pooling>(), std::optional(Pooling::sum), std::optional(Pooling::mean),
            std::optional(Pooling::max)}) {
        Random r = init();
        GraphNetwork model({.inputs = 4,
                            .classes = 3,
                            .width = 8,
                            .layer = layer,
                            .normalization = normalization,
                            .heads = 2,
                            .output_heads = 2,
                            .pooling = pooling},
                           r);
        randomised(model, f64);
        const Array before = model.forward(graph, x, first_nodes).value();
        const Array after = model.forward(permuted, x.select(order), first_nodes).value();
        check_close(after, pooling ? before : before.select(order), 1e-11);
        CHECK(std::abs(doubles(before)[0]) > 1e-3);
      }
}

TEST_CASE("graphs: a batch of graphs has the outputs of each graph alone") {
  Random r = init();
  GraphNetwork model(
      {.inputs = 1, .classes = 5, .normalization = Normalization::sum, .pooling = Pooling::sum}, r);
  randomised(model, f64);
  const SyntheticGraphs data({.examples = 8});
  const std::int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const Batch batch = data.batch(all);
  const auto answer = [&](const Batch& one) {
    const auto& [graph, first_nodes, features] = one.part<GraphPart>();
    return model.forward(graph, one.inputs.to(f64), first_nodes).value();
  };
  const Array together = answer(batch);
  for (std::int64_t i = 0; i < 8; ++i) {
    check_close(answer(data.batch({&all[i], 1})), together.select({i}), 1e-9);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
