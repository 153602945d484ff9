#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "autograd/ops.hpp"
#include "autograd/tape.hpp"
#include "data/graphs/drawn_graphs.hpp"
#include "data/graphs/node_graph.hpp"
#include "layers/convolution1d.hpp"
#include "layers/graph.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"

// Graphs: their edges, ops and layers, and the graphs there are to learn from.
namespace tapestry {
namespace {

using Edges = std::vector<Edge>;
using Ints = std::vector<std::int32_t>;

constexpr DType f64 = DType::float64;

Array normal(const Shape& shape) {
  static std::uint64_t step = 0;
  Array array(shape, f64);
  Random(4, Stream::data, ++step).fill_normal(array, 0, 1);
  return array;
}

Random init() { return Random(0, Stream::init); }

Ints ints_of(const Array& array) {
  const auto values = array.values<std::int32_t>();
  return {values.begin(), values.end()};
}

std::vector<double> doubles(const Array& array) {
  const Array wide = array.to(f64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

void check_close(const Array& a, const Array& b, double tolerance = 1e-12) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = doubles(a), y = doubles(b);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) <= tolerance);
}

// Parameters N(0, 0.5²), in float64.
template <class M>
M randomised(M module) {
  std::uint64_t step = 0;
  for (Parameter* parameter : module.parameters()) {
    Array values = parameter->value();
    Random(9, Stream::init, ++step).fill_normal(values, 0, 0.5);
  }
  module.convert(f64);
  return module;
}

void set(Parameter& parameter, const std::vector<double>& values) {
  parameter.value().copy_from(
      Array::of(values, parameter.tensor.shape()).to(parameter.tensor.dtype()));
}

Adjacency random_graph(std::int64_t nodes, int edges, std::uint64_t seed) {
  Random random(seed, Stream::data);
  Edges list;
  for (int i = 0; i < edges; ++i)
    list.push_back({static_cast<std::int32_t>(random.below(nodes)),
                    static_cast<std::int32_t>(random.below(nodes))});
  return Adjacency(nodes, list);
}

// (N, N): row j, column i is `edge` where i leads to j, else `none`.
Array dense(const Adjacency& graph, double edge, double none) {
  Array matrix = Array::full({graph.nodes(), graph.nodes()}, none, f64);
  for (const auto& [from, to] : graph.list())
    matrix.mutable_values<double>()[to * graph.nodes() + from] = edge;
  return matrix;
}

TEST_SUITE_BEGIN("graphs");

// --- edges ---

TEST_CASE("Adjacency: edges by where they lead and by where they come from, each once") {
  const Adjacency graph(4, {{2, 1}, {0, 1}, {3, 3}, {0, 1}, {1, 0}, {0, 2}});
  CHECK(graph.nodes() == 4);
  CHECK(graph.edges() == 5);
  CHECK(graph.list() == Edges{{1, 0}, {0, 1}, {2, 1}, {0, 2}, {3, 3}});
  CHECK(ints_of(graph.incoming().offsets) == Ints{0, 1, 3, 4, 5});
  CHECK(ints_of(graph.incoming().neighbours) == Ints{1, 0, 2, 0, 3});
  CHECK(ints_of(graph.incoming().edges) == Ints{0, 1, 2, 3, 4});
  CHECK(ints_of(graph.outgoing().offsets) == Ints{0, 2, 3, 4, 5});
  CHECK(ints_of(graph.outgoing().neighbours) == Ints{1, 2, 0, 1, 3});
  CHECK(ints_of(graph.outgoing().edges) == Ints{1, 3, 0, 2, 4});
  CHECK(Adjacency::undirected(3, {{0, 1}, {1, 0}, {2, 2}}).list() == Edges{{1, 0}, {0, 1}, {2, 2}});
  CHECK(Adjacency::join({graph, Adjacency(), Adjacency(2, {{0, 1}})}).list() ==
        Edges{{1, 0}, {0, 1}, {2, 1}, {0, 2}, {3, 3}, {4, 5}});
  CHECK(Adjacency::join({}).nodes() == 0);
  CHECK(Adjacency().edges() == 0);
}

TEST_CASE("Adjacency: a misuse is std::invalid_argument that says what is wrong") {
  const Adjacency graph(3, {{0, 1}, {1, 2}});
  const auto t = [](const Shape& shape) { return Tensor(Array::zeros(shape)); };
  const auto offsets = [](const Ints& values) { return Array::of(values, {std::ssize(values)}); };
  const std::pair<std::string, std::function<void()>> rows[] = {
      {"graph: an edge from node 0 to node 3 of 3",
       [] {
         Adjacency(3, {{0, 3}});
       }},
      {"graph: an edge from node -1 to node 0 of 3",
       [] {
         Adjacency(3, {{-1, 0}});
       }},
      {"neighbour_sum: (4, 2) on a graph of 3 nodes",
       [&] {
         neighbour_sum(graph, t({4, 2}));
       }},
      {"neighbour_sum: weights (3, 1) on a graph of 2 edges",
       [&] {
         neighbour_sum(graph, t({3, 2}), t({3, 1}));
       }},
      {"neighbour_sum: (3, 4) on a graph of 3 nodes, with 3 heads",
       [&] {
         neighbour_sum(graph, t({3, 4}), t({2, 3}));
       }},
      {"neighbour_sum: expected float32 or float64",
       [&] {
         neighbour_sum(graph, Array::zeros({3, 1}, DType::int32));
       }},
      {"edge_products: shapes (3, 2) and (3, 4) differ",
       [&] {
         edge_products(graph, t({3, 2}), t({3, 4}));
       }},
      {"edge_products: (3, 4) on a graph of 3 nodes, with 0 heads",
       [&] {
         edge_products(graph, t({3, 4}), t({3, 4}), 0);
       }},
      {"segment_sum: (3, 2) with offsets that do not rise from 0 to 3",
       [&] {
         segment_sum(t({3, 2}), offsets({0, 2}));
       }},
      {"segment_mean: (3, 2) with offsets that do not rise",
       [&] {
         segment_mean(t({3, 2}), offsets({0, 4, 3}));
       }},
      {"segment_max: (3, 2) with int32 offsets (0,)",
       [&] {
         segment_max(t({3, 2}), offsets({}));
       }},
      {"segment_softmax: (3,) with",
       [&] {
         segment_softmax(t({3}), offsets({0, 3}));
       }},
      {"unfold: (2, 3) with windows of 3",
       [&] {
         unfold(t({2, 3}), {});
       }},
      {"unfold: (1, 2, 3) with windows of 3 every 0",
       [&] {
         unfold(t({1, 2, 3}), {.stride = 0});
       }},
      {"graph attention: 3 heads do not divide width 4", [] {
         Random r = init();
         GraphAttention(2, 4, r, {.heads = 3});
       }}};
  for (const auto& [wanted, call] : rows) {
    std::string said = "no std::invalid_argument";
    try {
      call();
    } catch (const std::invalid_argument& error) {
      said = error.what();
    }
    CHECK_MESSAGE(said.find(wanted) == 0, said, " is not ", wanted);
  }
}

// --- ops against dense ones ---

struct Outcome {
  Tensor y;
  std::vector<Array> gradients;
};

Outcome outcome(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                const std::vector<Array>& inputs, const Array& g) {
  std::vector<Tensor> variables;
  for (const Array& input : inputs) variables.push_back(Tensor::variable(input));
  Tape tape;
  Outcome result{f(variables), {}};
  const Gradients gradients = tape.backward(result.y, g);
  for (const Tensor& variable : variables) result.gradients.push_back(gradients[variable]);
  return result;
}

TEST_CASE("graphs: sparse sums and attention are the dense ones, in value and gradient") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Adjacency& graph : {random_graph(40, 160, 1), random_graph(40, 20, 2),
                                 Adjacency(5, {}), Adjacency(3, {{0, 0}, {1, 1}, {2, 2}})}) {
    const std::int64_t N = graph.nodes();
    const Array g = normal({N, 6}), mask = dense(graph, 0, -infinity);
    const auto same = [&](const auto& sparse, const auto& full, const std::vector<Array>& inputs) {
      const Outcome a = outcome(sparse, inputs, g), b = outcome(full, inputs, g);
      check_close(a.y.value(), b.y.value());
      for (std::size_t i = 0; i < inputs.size(); ++i) check_close(a.gradients[i], b.gradients[i]);
    };
    using In = const std::vector<Tensor>&;
    same([&](In x) { return neighbour_sum(graph, x[0]); },
         [&](In x) { return matmul(dense(graph, 1, 0), x[0]); }, {normal({N, 6})});
    for (const std::int64_t heads : {1, 3})
      same(
          [&](In x) {
            const Tensor scores =
                edge_products(graph, x[0], x[1], heads) * std::sqrt(static_cast<double>(heads) / 6);
            return neighbour_sum(graph, x[2], segment_softmax(scores, graph.incoming().offsets));
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

TEST_CASE("graphs: segments are reduced as slices are, and empty ones give 0") {
  const Array x = normal({9, 5}), offsets = Array::of(Ints{0, 4, 4, 5, 9}, {5});
  const Tensor sums = segment_sum(x, offsets), means = segment_mean(x, offsets),
               maxima = segment_max(x, offsets), shares = segment_softmax(x, offsets);
  for (std::int64_t s = 0; s < 4; ++s) {
    const Ints begins = ints_of(offsets);
    const Tensor rows = slice(x, 0, begins[s], begins[s + 1]);
    const auto row = [&](const Tensor& of) { return slice(of, 0, s, s + 1).value(); };
    if (rows.dim(0) == 0) {
      for (const Tensor& of : {sums, means, maxima})
        check_close(row(of), Array::zeros({1, 5}, f64), 0);
      continue;
    }
    check_close(row(sums), sum(rows, {0}, Keep::yes).value());
    check_close(row(means), mean(rows, {0}, Keep::yes).value());
    check_close(row(maxima), max(rows, {0}, Keep::yes).value(), 0);
    const Tensor columns = softmax(permute(rows, {1, 0}));
    check_close(slice(shares, 0, begins[s], begins[s + 1]).value(),
                permute(columns, {1, 0}).value());
  }
}

TEST_CASE("graphs: equal maxima of a segment share the gradient") {
  const Array x = Array::of(std::vector{1.0, 3.0, 3.0, 2.0}, {4, 1});
  const Outcome result = outcome(
      [](const std::vector<Tensor>& in) {
        return segment_max(in[0], Array::of(Ints{0, 3, 4}, {3}));
      },
      {x}, Array::of(std::vector{1.0, 5.0}, {2, 1}));
  CHECK(doubles(result.gradients[0]) == std::vector{0.0, 0.5, 0.5, 5.0});
}

TEST_CASE("graphs: of a million edges drawn, each counts once") {
  const Adjacency graph = random_graph(1000, 1'000'000, 3);
  Array ones = Array::full({1000, 1}, 1);
  const auto degrees = doubles(neighbour_sum(graph, ones).value());
  CHECK(std::accumulate(degrees.begin(), degrees.end(), 0.0) == static_cast<double>(graph.edges()));
}

// --- layers by hand ---

TEST_CASE("graphs: a convolution is its equation, for each normalisation, by hand") {
  // 0 - 1 - 2, and 3 alone; one feature: 1, 2, 4, 8.
  const Adjacency path = Adjacency::undirected(4, {{0, 1}, {1, 2}});
  const Array x = Array::of(std::vector{1.0, 2.0, 4.0, 8.0}, {4, 1});
  const auto values = [&](Normalization normalization, Activation activation = Activation::none) {
    Random r = init();
    GraphConvolution layer(1, 1, r, {.normalization = normalization, .activation = activation});
    layer.convert(f64);
    set(layer.neighbours.weight, {10});
    set(layer.bias, {-25});
    if (layer.own) set(layer.own->weight, {3});
    return doubles(layer.forward(path, x).value());
  };
  CHECK(values(Normalization::sum) ==
        std::vector<double>{3 + 20 - 25, 6 + 50 - 25, 12 + 20 - 25, 24 - 25});
  CHECK(values(Normalization::mean) ==
        std::vector<double>{3 + 20 - 25, 6 + 25 - 25, 12 + 20 - 25, 24 - 25});
  CHECK(values(Normalization::sum, Activation::relu) == std::vector<double>{0, 31, 7, 0});
  const double ends = 1 / std::sqrt(2.0 * 3.0);
  const std::vector<double> wanted = {10 * (1.0 / 2 + 2 * ends), 10 * (2.0 / 3 + 5 * ends),
                                      10 * (4.0 / 2 + 2 * ends), 80};
  const std::vector<double> symmetric = values(Normalization::symmetric);
  for (std::size_t i = 0; i < 4; ++i) CHECK(symmetric[i] == doctest::Approx(wanted[i] - 25));
}

TEST_CASE("graphs: graph attention is attention that the edges mask, and its weights sum to 1") {
  Random r = init();
  const Adjacency graph = random_graph(20, 70, 5);
  const auto layer =
      randomised(GraphAttention(5, 6, r, {.heads = 2, .activation = Activation::none}));
  const Array x = normal({20, 5});
  const auto batched = [](const Tensor& t) { return reshape(t, {1, t.dim(0), t.dim(1)}); };
  const Tensor attended = scaled_dot_product_attention(
      batched(layer.query.forward(x)), batched(layer.key.forward(x)),
      batched(layer.value.forward(x)),
      {.heads = 2, .mask = dense(graph, 0, -std::numeric_limits<double>::infinity())});
  const Tensor wanted = reshape(attended, {20, 6}) + layer.own->forward(x) + layer.bias;
  check_close(layer.forward(graph, x).value(), wanted.value());

  const Tensor weights = layer.weights(graph, x);  // (E, 2)
  const std::vector<double> sums = doubles(segment_sum(weights, graph.incoming().offsets).value());
  const Ints offsets = ints_of(graph.incoming().offsets);
  for (std::size_t j = 0; j < 20; ++j)
    for (std::size_t h = 0; h < 2; ++h)
      CHECK(sums[2 * j + h] == doctest::Approx(offsets[j] < offsets[j + 1] ? 1 : 0));
}

TEST_CASE(
    "graphs: with one column a head, edges to one node, and no θ₁, attention is plain softmax") {
  Random r = init();
  auto layer = GraphAttention(1, 1, r, {.activation = Activation::none});
  layer.convert(f64);
  for (Parameter* parameter : {&layer.query.weight, &layer.key.weight, &layer.value.weight})
    set(*parameter, {1});
  set(layer.own->weight, {0});
  const Adjacency graph(3, {{0, 2}, {1, 2}});
  const Array x = Array::of(std::vector{1.0, 2.0, 3.0}, {3, 1});
  const double share = 1 / (1 + std::exp(-3.0));  // of node 1: scores are 3 and 6
  CHECK(doubles(layer.forward(graph, x).value())[2] == doctest::Approx(1 + share));
}

// The network with nodes renamed, and the features moved with them.
TEST_CASE("graphs: permuting nodes permutes the output, and leaves the pooled output unchanged") {
  const std::int64_t N = 30;
  const Adjacency graph = random_graph(N, 90, 6);
  const Array x = normal({N, 4}), first_nodes = Array::of(Ints{0, 30}, {2});
  std::vector<std::int64_t> order(N);  // new node v was order[v]
  for (std::int64_t v = 0; v < N; ++v) order[v] = (7 * v + 3) % N;
  Ints renamed(N);
  for (std::int64_t v = 0; v < N; ++v) renamed[order[v]] = static_cast<std::int32_t>(v);
  Edges moved;
  for (const auto& [from, to] : graph.list()) moved.push_back({renamed[from], renamed[to]});
  const Adjacency permuted(N, moved);
  for (const bool attention : {false, true})
    for (const Normalization normalization :
         {Normalization::sum, Normalization::mean, Normalization::symmetric})
      for (const std::optional<Pooling> pooling :
           {std::optional<Pooling>(), std::optional(Pooling::sum), std::optional(Pooling::mean),
            std::optional(Pooling::max)}) {
        Random r = init();
        const auto model = randomised(GraphNetwork({.inputs = 4,
                                                    .classes = 3,
                                                    .width = 8,
                                                    .attention = attention,
                                                    .normalization = normalization,
                                                    .heads = 2,
                                                    .pooling = pooling},
                                                   r));
        const Array before = model.forward(graph, x, first_nodes).value();
        const Array after = model.forward(permuted, x.select(order), first_nodes).value();
        check_close(after, pooling ? before : before.select(order), 1e-11);
        CHECK(std::abs(doubles(before)[0]) > 1e-3);
      }
}

TEST_CASE("graphs: a batch of graphs is read as each of them is alone") {
  Random r = init();
  const auto model = randomised(GraphNetwork(
      {.inputs = 1, .classes = 5, .normalization = Normalization::sum, .pooling = Pooling::sum},
      r));
  const DrawnGraphs data({.examples = 8});
  const std::int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const Batch batch = data.batch(all);
  const Array together =
      model.forward(*batch.graph, batch.inputs.to(f64), batch.first_nodes).value();
  for (std::int64_t i = 0; i < 8; ++i) {
    const Batch one = data.batch({&all[i], 1});
    check_close(model.forward(*one.graph, one.inputs.to(f64), one.first_nodes).value(),
                together.select({i}), 1e-9);
  }
}

// --- convolution along time ---

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
  const auto along_time = randomised(Convolution1d(C, O, r, {.before = 1, .after = 1}));
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

// --- data ---

TEST_CASE("karate: 34 members, 78 pairs, and the two clubs they joined") {
  const NodeGraph club = karate_club({1, 34});
  CHECK(club.graph.nodes() == 34);
  CHECK(club.graph.edges() == 2 * 78);
  std::map<std::int32_t, int> degrees;
  for (const auto& [from, to] : club.graph.list()) {
    CHECK(from != to);
    ++degrees[to + 1];
  }
  CHECK(degrees[1] == 16);
  CHECK(degrees[33] == 12);
  CHECK(degrees[34] == 17);
  CHECK(degrees[12] == 1);
  CHECK(degrees.size() == 34);
  CHECK(std::accumulate(club.labels.begin(), club.labels.end(), 0) == 17);
  CHECK(club.labels[0] == 0);
  CHECK(club.labels[8] == 0);  // member 9 went with Mr. Hi, though his friends did not
  CHECK(club.labels[33] == 1);
  CHECK(club.training == std::vector<std::int64_t>{0, 33});
  CHECK(club.validation.size() == 32);
  CHECK(club.names[33] == "34");
  check_says(message_of([] { karate_club({}); }), {"data.labelled: 0 of 34"});
  check_says(message_of([] { karate_club({1, 2}); }), {"data.labelled: 2 of 34", "either side"});
  check_says(message_of([] { karate_club({35}); }), {"data.labelled: member 35", "1 to 34"});

  const NodeDataset data(std::make_shared<const NodeGraph>(club), club.training);
  const std::int64_t examples[] = {1, 1};
  const Batch batch = data.batch(examples);
  CHECK(batch.count == 1);  // one node, asked for twice
  CHECK(batch.inputs.shape() == Shape{34, 34});
  const Ints targets = ints_of(batch.targets);
  CHECK(targets[33] == 1);
  CHECK(std::ranges::count(targets, ignored_target) == 33);
}

// How many edges each node of an undirected graph has, sorted.
std::vector<int> degrees_of(const Adjacency& graph) {
  std::vector<int> degrees(graph.nodes());
  for (const auto& [from, to] : graph.list()) ++degrees[from];
  std::ranges::sort(degrees);
  return degrees;
}

bool connected(const Adjacency& graph) {
  std::vector<std::int32_t> part(graph.nodes());
  std::iota(part.begin(), part.end(), 0);
  for (std::int64_t round = 0; round < graph.nodes(); ++round)
    for (const auto& [from, to] : graph.list()) part[to] = std::min(part[to], part[from]);
  return std::ranges::all_of(part, [](std::int32_t p) { return p == 0; });
}

TEST_CASE("drawn graphs: are of the structure that they are said to be") {
  const DrawnGraphs data({.examples = 400, .seed = 3});
  std::map<std::string, int> counts;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const auto [graph, label] = data.draw(i);
    const std::string kind = DrawnGraphs::classes()[label];
    const std::int64_t N = graph.nodes(), pairs = graph.edges() / 2;
    const std::vector<int> degrees = degrees_of(graph);
    ++counts[kind];
    CAPTURE(edges_text(graph));
    CHECK((N >= 12 && N <= 24));
    CHECK(connected(graph));
    if (kind == "ring") CHECK(pairs == N);
    if (kind == "star" || kind == "tree") CHECK(pairs == N - 1);
    if (kind == "star") CHECK(degrees.back() >= 3 * N / 4 - 1);
    if (kind == "tree") CHECK(degrees.back() <= 4);
    if (kind == "grid") CHECK((pairs > N && pairs < 2 * N));
    if (kind == "cliques") CHECK(pairs >= 2 * 6 + 1 + N - 9);
  }
  CHECK(counts.size() == 5);
  for (const auto& [kind, count] : counts) CHECK_MESSAGE(count > 40, kind);
}

TEST_CASE("drawn graphs: an example depends on the seed and its index alone") {
  const DrawnGraphs few({.examples = 10, .seed = 3}), many({.examples = 1000, .seed = 3}),
      other({.examples = 10, .seed = 4});
  CHECK(few.draw(9).graph.list() == many.draw(9).graph.list());
  CHECK(few.draw(9).graph.list() != many.draw(8).graph.list());
  CHECK(few.draw(9).graph.list() != other.draw(9).graph.list());
  CHECK_THROWS_AS(few.draw(10), std::invalid_argument);
  const std::int64_t examples[] = {4, 0, 4};
  const Batch batch = few.batch(examples);
  const Ints first = ints_of(batch.first_nodes);
  CHECK(batch.count == 3);
  CHECK(first.front() == 0);
  CHECK(first.back() == batch.graph->nodes());
  CHECK(first[1] == first[3] - first[2]);
  CHECK(batch.inputs.shape() == Shape{batch.graph->nodes(), 1});
}

// The colours of the nodes after three rounds of refinement: the same for isomorphic graphs.
std::multiset<std::size_t> fingerprint(const Adjacency& graph) {
  static std::map<std::vector<std::size_t>, std::size_t> numbers;  // of all that was met
  std::vector<std::size_t> colours(graph.nodes());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<std::size_t>> seen(colours.size());
    for (const auto& [from, to] : graph.list()) seen[to].push_back(colours[from]);
    for (std::size_t v = 0; v < seen.size(); ++v) {
      std::ranges::sort(seen[v]);
      seen[v].push_back(colours[v]);
    }
    for (std::size_t v = 0; v < seen.size(); ++v)
      colours[v] = numbers.emplace(seen[v], numbers.size() + 1).first->second;
  }
  return {colours.begin(), colours.end()};
}

TEST_CASE("drawn graphs: none of the held-back ones is isomorphic to one of the others") {
  DrawnGraphOptions options{.least_nodes = 12, .most_nodes = 14, .examples = 3000, .seed = 1};
  const DrawnGraphs train(options);
  options.seed = 2;
  options.split = Split::held_back;
  const DrawnGraphs held(options);
  std::set<std::multiset<std::size_t>> seen, kept;
  std::set<std::int32_t> kinds;
  for (std::int64_t i = 0; i < 3000; ++i) {
    seen.insert(fingerprint(train.draw(i).graph));
    kept.insert(fingerprint(held.draw(i).graph));
    kinds.insert(held.draw(i).label);
  }
  CHECK(std::ranges::none_of(kept, [&](const auto& print) { return seen.contains(print); }));
  CHECK(kept.size() > 100);
  CHECK(seen.size() > 500);
  CHECK(kinds.size() == 5);
}

TEST_CASE("drawn graphs: edges as text and back, and options out of range") {
  const Adjacency graph = parse_edges("  0-1 2-1\n3-3 ");
  CHECK(graph.nodes() == 4);
  CHECK(edges_text(graph) == "0-1 1-2 3-3");
  for (const std::string word : {"1", "1-", "-1", "a-b", "1-2-3", "1--2", "0-100000", "1,2"})
    check_says(message_of([&] { parse_edges("0-1 " + word); }), {"edge '" + word + "'", "0-1"});
  check_says(message_of([] { parse_edges(" "); }), {"without edges"});
  const DrawnGraphOptions wrong[] = {{.least_nodes = 11},
                                     {.least_nodes = 20, .most_nodes = 19},
                                     {.most_nodes = 1001},
                                     {.examples = 0}};
  for (const DrawnGraphOptions& options : wrong)
    CHECK_THROWS_AS(DrawnGraphs{options}, std::invalid_argument);
}

constexpr CitationSplit few{.training = 2, .validation = 2, .test = 3};

TEST_CASE("citations: papers, their features by row sums, and the split by lines") {
  const TemporaryFolder folder;
  folder.write("small.content", content);
  folder.write("small.cites", cites);
  folder.write("README", "");
  const NodeGraph whole = load_citations(folder.path(), few);
  CHECK(whole.graph.nodes() == 8);
  CHECK(whole.graph.edges() == 2 * 6);
  CHECK(whole.classes == std::vector<std::string>{"art", "maths"});
  CHECK(whole.labels == Ints{1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(whole.names[7] == "p8");
  check_close(whole.features.to(f64),
              Array::of(std::vector<double>{1, 0, 0, 0, .5, .5, .5, .5, 0, 0, 0,  1,
                                            0, 0, 0, 0, 0,  1,  1,  0,  0, 0, .5, .5},
                        {8, 3}));
  CHECK(whole.training == std::vector<std::int64_t>{0, 1});
  CHECK(whole.validation == std::vector<std::int64_t>{2, 3});
  CHECK(whole.test == std::vector<std::int64_t>{5, 6, 7});
}

TEST_CASE("citations: what is wrong, in which file and line, and why") {
  const auto load = [](const std::string& papers, const std::string& links,
                       const CitationSplit& split = few) {
    const TemporaryFolder folder;
    folder.write("small.content", papers);
    folder.write("small.cites", links);
    return message_of([&] { load_citations(folder.path(), split); });
  };
  const std::string good = content;
  CHECK(load(good, cites).empty());
  check_says(load(good, "p1 p3\np9 p1\n"),
             {"small.cites: line 2", "node p9, which is not among the 8 of", "small.content"});
  check_says(load(good, "p1 p3 p4\n"), {"small.cites: line 1: 3 words", "two nodes"});
  check_says(load(good, "p1\n"), {"line 1: 1 words"});
  check_says(load(good + "p9\t1\t0\tart\n", cites),
             {"small.content: line 10: 2 features, expected 3 as in line 1"});
  check_says(load(good + "p9\t1\t0\t0\t0\tart\n", cites), {"line 10: 4 features, expected 3"});
  check_says(load("p1 maths\n", cites), {"line 1: 2 words, expected a name, features and a class"});
  check_says(load(good + "p9 1 x 0 art\n", cites), {"line 10: feature 'x'", "number"});
  check_says(load(good + "p9 1 nan 0 art\n", cites), {"feature 'nan'"});
  check_says(load(good + "p9 1 -1 0 art\n", cites), {"feature '-1'", "at least 0"});
  check_says(load(good + "p9 1 1e99 0 art\n", cites), {"feature '1e99'"});
  check_says(load(good + "p3 1 0 0 art\n", cites), {"line 10: node p3 again; line 3 has it"});
  check_says(load(good + "p9 1 0 0 music\n", cites),
             {"small.content: line 10: class 'music' is unknown", "first 2 nodes"});
  check_says(load(good, cites, {}), {"8 nodes, fewer than data.training_nodes = 140"});
  check_says(load("", cites), {"0 nodes, fewer"});
  check_says(load(good + "p9 1 0 0 th\xE9orie\n", cites),
             {"small.content: byte 125 (line 10)", "UTF-8"});
  check_says(load(good, "\n"), {"small.cites: no edges"});
  CHECK(load("\xEF\xBB\xBF" + good, "\xEF\xBB\xBF" + std::string(cites)).empty());
  CHECK(load(good.substr(0, good.size() - 1), "p1 p3").empty());  // no newline at the end
  const TemporaryFolder folder;
  check_says(message_of([&] { load_citations(folder.path("none"), few); }),
             {"none: cannot be listed"});
  folder.write("a.content", content);
  check_says(message_of([&] { load_citations(folder.path(), few); }),
             {"expected one file *.cites or *.cites.gz, found a.content", "linqs.org"});
  folder.write("a.cites", cites);
  folder.write("b.content", content);
  check_says(message_of([&] { load_citations(folder.path(), few); }),
             {"expected one file *.content", "found a.content, b.content"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
