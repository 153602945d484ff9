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
  const Array x = normal({6, 3}), first_nodes = ints({0, 2, 2, 6}, {4});
  const auto on_graph = [graph](const auto& layer, In in) { return layer.forward(graph, in[0]); };
  std::vector<LayerRow> rows = {
      make_row("GraphAttention", GraphAttention(3, 4, r, {.activation = Activation::gelu}),
               on_graph, {x}),
      make_row("GraphAttention: heads",
               GraphAttention(3, 4, r, {.heads = 2, .activation = Activation::none}), on_graph,
               {x}),
  };
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

TEST_SUITE_BEGIN("graphs");

TEST_CASE("graphs: sparse features have the values and gradients of dense ones") {
  const Adjacency graph = random_graph(20, 70, 5);
  Array x = normal({20, 9});
  auto elements = x.mutable_values<double>();
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] *= i % 7 == 0;
  const SparseMatrix sparse = sparse_matrix(x);
  for (const GraphLayerKind kind : {GraphLayerKind::convolution, GraphLayerKind::attention}) {
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
  for (const GraphLayerKind layer : {GraphLayerKind::convolution, GraphLayerKind::attention})
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
