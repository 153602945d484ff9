#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "autograd/ops.hpp"
#include "layers/graph_layers.hpp"
#include "tests/support/graphs.hpp"
#include "tests/support/modules.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("graphs");

TEST_CASE("Adjacency: lists each edge once by its target and once by its source") {
  const Adjacency graph(4, {{2, 1}, {0, 1}, {3, 3}, {0, 1}, {1, 0}, {0, 2}});
  CHECK(graph.nodes() == 4);
  CHECK(graph.edges() == 5);
  CHECK(graph.list() == Edges{{1, 0}, {0, 1}, {2, 1}, {0, 2}, {3, 3}});
  CHECK(ints_of(graph.incoming().offsets) == Ints{0, 1, 3, 4, 5});
  CHECK(ints_of(graph.incoming().neighbors) == Ints{1, 0, 2, 0, 3});
  CHECK(ints_of(graph.incoming().edges) == Ints{0, 1, 2, 3, 4});
  CHECK(ints_of(graph.edge_sources()) == Ints{1, 0, 2, 0, 3});
  CHECK(ints_of(graph.edge_targets()) == Ints{0, 1, 1, 2, 3});
  const Tensor x = normal({4, 3});
  check_close(segment_sum(gather(x, 0, graph.edge_sources()), graph.incoming().offsets).value(),
              neighbor_sum(graph, x).value());
  CHECK(ints_of(graph.outgoing().offsets) == Ints{0, 2, 3, 4, 5});
  CHECK(ints_of(graph.outgoing().neighbors) == Ints{1, 2, 0, 1, 3});
  CHECK(ints_of(graph.outgoing().edges) == Ints{1, 3, 0, 2, 4});
  CHECK(Adjacency::undirected(3, {{0, 1}, {1, 0}, {2, 2}}).list() == Edges{{1, 0}, {0, 1}, {2, 2}});
  CHECK(Adjacency::join({graph, Adjacency(), Adjacency(2, {{0, 1}})}).list() ==
        Edges{{1, 0}, {0, 1}, {2, 1}, {0, 2}, {3, 3}, {4, 5}});
  CHECK(Adjacency::join({}).nodes() == 0);
  CHECK(Adjacency().edges() == 0);
}

TEST_CASE("Adjacency: a sparse matrix lists its entries by row, and multiplies as the dense one") {
  const Array dense = Array::of(std::vector<double>{0, 2, 0, 0, 3, 0, 0, -1, 0, 0, 0, 0}, {4, 3});
  const auto [entries, values] = sparse_matrix(dense);
  CHECK(entries.sources() == 3);
  CHECK(entries.nodes() == 4);
  CHECK(entries.list() == Edges{{1, 0}, {1, 1}, {1, 2}});
  CHECK(doubles(values) == std::vector<double>{2, 3, -1});
  const Array weight = normal({3, 5});
  check_close(neighbor_sum(entries, weight, values).value(), matmul(dense, weight).value());
  CHECK(sparse_matrix(Array::zeros({2, 0})).entries.nodes() == 2);
  CHECK(Adjacency::join({Adjacency(2, 1, {{1, 0}}), entries}).list() ==
        Edges{{1, 0}, {3, 1}, {3, 2}, {3, 3}});
}

TEST_CASE("Adjacency: wrong arguments throw std::invalid_argument with the cause") {
  const Adjacency graph(3, {{0, 1}, {1, 2}});
  const auto t = [](auto... dims) { return Tensor(Array::zeros(Shape{dims...})); };
  const auto offsets = [](auto... values) {
    return Array::of(Ints{values...}, {sizeof...(values)});
  };
  const std::pair<std::string, std::function<void()>> rows[] = {
      {"graph: an edge from node 0 to node 3; expected a source in [0, 3) and a target in [0, 3)",
       [] {
         Adjacency(3, {{0, 3}});
       }},
      {"graph: an edge from node -1 to node 0; expected a source in [0, 3) and a target in [0, 3)",
       [] {
         Adjacency(3, {{-1, 0}});
       }},
      {"neighbor_sum: x (4, 2) with 1 heads; expected (3, F)",
       [&] { neighbor_sum(graph, t(4, 2)); }},
      {"neighbor_sum: weights (3, 1); expected (2, H)",
       [&] { neighbor_sum(graph, t(3, 2), t(3, 1)); }},
      {"neighbor_sum: x (3, 4) with 3 heads", [&] { neighbor_sum(graph, t(3, 4), t(2, 3)); }},
      {"neighbor_sum: an input is int32 (3, 1); expected float32 or float64",
       [&] {
         neighbor_sum(graph, Array::zeros({3, 1}, DType::int32));
       }},
      {"edge_products: shapes (3, 2) and (3, 4) differ",
       [&] { edge_products(graph, t(3, 2), t(3, 4)); }},
      {"edge_products: x (3, 4) with 0 heads", [&] { edge_products(graph, t(3, 4), t(3, 4), 0); }},
      {"edge_softmax: a (3, 2) and b (3, 1); expected as many heads",
       [&] { edge_softmax(graph, t(3, 2), t(3, 1), 0.2); }},
      {"edge_softmax: x (4, 2) with 1 heads; expected (3, F)",
       [&] { edge_softmax(graph, t(4, 2), t(3, 2), 0.2); }},
      {"edge_softmax: slope = -1", [&] { edge_softmax(graph, t(3, 2), t(3, 2), -1); }},
      {"graph: loops of 1 nodes with 2 sources",
       [] {
         Adjacency(2, 1, {{1, 0}}).with_loops();
       }},
      {"segment_sum: x (3, 2) with offsets that do not ascend from 0 to 3",
       [&] { segment_sum(t(3, 2), offsets(0, 2)); }},
      {"segment_mean: x (3, 2) with offsets that do not ascend",
       [&] { segment_mean(t(3, 2), offsets(0, 4, 3)); }},
      {"segment_max: x (3, 2) with offsets int32 (0,)", [&] { segment_max(t(3, 2), offsets()); }},
      {"segment_softmax: x (3,) with", [&] { segment_softmax(t(3), offsets(0, 3)); }},
      {"unfold: x (2, 3) with width 3", [&] { unfold(t(2, 3), {}); }},
      {"unfold: x (1, 2, 3) with width 3 and stride 0", [&] { unfold(t(1, 2, 3), {.stride = 0}); }},
      {"graph attention: 3 heads do not divide width 4", [] {
         Random r = init();
         GraphAttention(2, 4, r, {.heads = 3});
       }}};
  for (const auto& [wanted, call] : rows) {
    const std::string said = misuse_of(call);
    CHECK_MESSAGE(said.find(wanted) == 0, said, " is not ", wanted);
  }
}

// --- ops against dense ones ---

TEST_CASE("graphs: sparse sums and attention have the values and gradients of the dense ones") {
  for (const Adjacency& graph : {random_graph(40, 160, 1), random_graph(40, 20, 2),
                                 Adjacency(5, {}), Adjacency(3, {{0, 0}, {1, 1}, {2, 2}})}) {
    const std::int64_t N = graph.nodes();
    const Array g = normal({N, 6}), mask = dense(graph, 0, -infinity);
    const auto same = [&](const auto& sparse, const auto& full, const std::vector<Array>& inputs) {
      const Outcome a = run(sparse, inputs, f64, g), b = run(full, inputs, f64, g);
      check_close(a.y, b.y);
      for (std::size_t i = 0; i < inputs.size(); ++i) check_close(a.gradients[i], b.gradients[i]);
    };
    same([&](In x) { return neighbor_sum(graph, x[0]); },
         [&](In x) { return matmul(dense(graph, 1, 0), x[0]); }, {normal({N, 6})});
    for (const std::int64_t heads : {1, 3})
      same(
          [&](In x) {
            const Tensor scores =
                edge_products(graph, x[0], x[1], heads) * std::sqrt(static_cast<double>(heads) / 6);
            return neighbor_sum(graph, x[2], segment_softmax(scores, graph.incoming().offsets));
          },
          [&](In x) {
            const auto batched = [&](const Tensor& t) { return reshape(t, {1, N, 6}); };
            return reshape(scaled_dot_product_attention(batched(x[0]), batched(x[1]), batched(x[2]),
                                                        {.heads = heads, .mask = mask}),
                           {N, 6});
          },
          {normal({N, 6}), normal({N, 6}), normal({N, 6})});
  }
}

TEST_CASE("graphs: the weights of additive attention are those of gathered scores") {
  for (const Adjacency& graph : {random_graph(40, 160, 1), random_graph(40, 20, 2),
                                 Adjacency(5, {}), Adjacency(3, {{0, 0}, {1, 1}, {2, 2}})}) {
    const std::vector<Array> inputs{normal({graph.nodes(), 3}), normal({graph.nodes(), 3})};
    const Array g = normal({graph.edges(), 3});
    const Outcome fused =
        run([&](In x) { return edge_softmax(graph, x[0], x[1], 0.2); }, inputs, f64, g);
    const Outcome composed = run(
        [&](In x) {
          const Tensor scores =
              gather(x[0], 0, graph.edge_targets()) + gather(x[1], 0, graph.edge_sources());
          return segment_softmax(leaky_relu(scores, 0.2), graph.incoming().offsets);
        },
        inputs, f64, g);
    check_close(fused.y, composed.y);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check_close(fused.gradients[i], composed.gradients[i]);
  }
}

TEST_CASE("Adjacency: with loops, each node is also its own neighbor, once") {
  const Adjacency graph(3, {{2, 1}, {1, 1}, {0, 2}}), copy = graph;
  CHECK(graph.with_loops().list() == Edges{{0, 0}, {1, 1}, {2, 1}, {0, 2}, {2, 2}});
  CHECK(copy.with_loops().edge_sources().values<std::int32_t>().data() ==
        graph.with_loops().edge_sources().values<std::int32_t>().data());  // computed once
  CHECK(graph.edges() == 3);
  CHECK(Adjacency().with_loops().edges() == 0);
}

TEST_CASE("graphs: equal maxima of a segment share the gradient") {
  const Array x = Array::of(std::vector{1.0, 3.0, 3.0, 2.0}, {4, 1});
  const Outcome result = run(
      [](const std::vector<Tensor>& in) {
        return segment_max(in[0], Array::of(Ints{0, 3, 4}, {3}));
      },
      {x}, f64, Array::of(std::vector{1.0, 5.0}, {2, 1}));
  CHECK(doubles(result.gradients[0]) == std::vector{0.0, 0.5, 0.5, 5.0});
}

TEST_CASE("graphs: each of a million random edges counts once") {
  const Adjacency graph = random_graph(1000, 1'000'000, 3);
  Array ones = Array::full({1000, 1}, 1);
  const auto degrees = doubles(neighbor_sum(graph, ones).value());
  CHECK(std::accumulate(degrees.begin(), degrees.end(), 0.0) == static_cast<double>(graph.edges()));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
