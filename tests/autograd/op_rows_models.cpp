#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "tests/support/op_table.hpp"

// Rows of the table of ops: products, convolutions and graphs.
namespace tapestry {
namespace {

// Nodes 4 and 5 have no edges, and node 2 has an edge to itself.
const Adjacency small_graph(6, {{0, 1}, {1, 0}, {2, 2}, {0, 2}, {3, 0}, {1, 2}});

}  // namespace

std::vector<OpRow> matmul_ops() {
  const std::vector<std::tuple<const char*, Shape, Shape>> shapes = {
      {"matrices", {3, 4}, {4, 5}},
      {"row by column", {1, 4}, {4, 1}},
      {"column by row", {3, 1}, {1, 5}},
      {"one by one", {1, 1}, {1, 1}},
      {"batch", {2, 3, 4}, {2, 4, 5}},
      {"batch of 4 axes", {2, 2, 2, 3}, {2, 2, 3, 2}},
      {"batch by matrix", {2, 3, 4}, {4, 5}},
      {"matrix by batch", {3, 4}, {2, 4, 5}},
      {"stretched batch", {1, 3, 4}, {2, 4, 5}},
      {"both stretched", {2, 1, 3, 2}, {1, 3, 2, 2}},
      {"rank difference", {2, 3, 2, 2}, {3, 2, 2}},
      {"no rows", {0, 4}, {4, 5}},
      {"no depth", {3, 0}, {0, 5}},
      {"no columns", {3, 4}, {4, 0}},
      {"no batch", {0, 3, 4}, {0, 4, 5}},
      {"no batch by one", {0, 3, 4}, {1, 4, 5}},
      {"odd", {17, 33}, {33, 19}},
  };
  std::vector<OpRow> rows;
  for (const auto& [variant, a, b] : shapes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        const MatmulOptions options{transpose_a, transpose_b};
        Shape stored_a = a, stored_b = b;
        if (transpose_a) std::swap(stored_a[-1], stored_a[-2]);
        if (transpose_b) std::swap(stored_b[-1], stored_b[-2]);
        rows.push_back({fmt::format("matmul: {}{}{}", variant, transpose_a ? ", aᵀ" : "",
                                    transpose_b ? ", bᵀ" : ""),
                        [options](In x) { return matmul(x[0], x[1], options); },
                        {normal(stored_a), normal(stored_b)}});
      }
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      rows.push_back({"matmul: x by itself",
                      [=](In x) {
                        return matmul(x[0], x[0], {ta, tb});
                      },
                      {normal({4, 4})}});

  const Array weight = normal({4, 5}), bias = normal({4});
  for (const Shape& shape :
       std::vector<Shape>{{5}, {3, 5}, {2, 3, 5}, {1, 5}, {0, 5}, {2, 1, 2, 5}}) {
    rows.push_back({"linear: bias, x " + to_string(shape),
                    [](In x) { return linear(x[0], x[1], x[2]); },
                    {normal(shape), weight, bias}});
    rows.push_back({"linear: no bias, x " + to_string(shape),
                    [](In x) { return linear(x[0], x[1]); },
                    {normal(shape), weight}});
  }
  rows.push_back({"linear: one to one",
                  [](In x) { return linear(x[0], x[1], x[2]); },
                  {normal({3, 1}), normal({1, 1}), normal({1})}});
  rows.push_back({"linear: from nothing",
                  [](In x) { return linear(x[0], x[1], x[2]); },
                  {normal({3, 0}), normal({2, 0}), normal({2})}});
  rows.push_back(
      {"linear: x as its own weight", [](In x) { return linear(x[0], x[0]); }, {normal({4, 3})}});
  rows.push_back({"linear: weight used twice",
                  [](In x) { return linear(linear(x[0], x[1], x[2]), x[1], x[2]); },
                  {normal({3, 4}), normal({4, 4}), normal({4})}});
  for (const auto& [variant, shape] : std::vector<std::pair<const char*, Shape>>{
           {"vector", {5}}, {"rows", {3, 5}}, {"rank 3", {2, 3, 5}}, {"no rows", {0, 5}}}) {
    Shape out = shape;
    out[-1] = 7;
    rows.push_back({fmt::format("add_low_rank: {}", variant),
                    [](In x) {
                      return add_low_rank(x[0], x[1], {{x[2], x[3]}}, 1.5);
                    },
                    {normal(out), normal(shape), normal({2, 5}), normal({7, 2})}});
    rows.push_back({fmt::format("add_low_rank: {}, rows of two changes", variant),
                    [](In x) {
                      return add_low_rank(x[0], x[1], {{x[4], x[5], 4}, {x[2], x[3], 1}}, 0.5);
                    },
                    {normal(out), normal(shape), normal({2, 5}), normal({3, 2}), normal({1, 5}),
                     normal({2, 1})}});
  }
  rows.push_back({"add_low_rank: y of x",
                  [](In x) {
                    return add_low_rank(linear(x[0], x[1]), x[0], {{x[2], x[3]}}, 2);
                  },
                  {normal({3, 4}), normal({4, 4}), normal({2, 4}), normal({4, 2})}});
  return rows;
}

std::vector<OpRow> model_ops() {
  const Array table = normal({6, 3});
  const auto look_up = [](const Array& tokens) {
    return [tokens](In x) { return embedding(x[0], tokens); };
  };
  const Function norm = [](In x) { return layer_norm(x[0], x[1], x[2]); };
  const auto rms = [](const RmsNormOptions& options) {
    return [options](In x) { return rms_norm(x[0], x[1], options); };
  };
  const auto by_groups = [](const GroupNormOptions& options) {
    return [options](In x) { return group_norm(x[0], x[1], x[2], options); };
  };
  const Array planes = normal({2, 6, 3, 5}), gains = normal({6});
  const Function gated = [](In x) { return swiglu(x[0]); };
  return {
      {"embedding", look_up(ints({4, 0, 5}, {3})), {table}},
      {"embedding: repeated tokens", look_up(ints({1, 1, 5, 1, 0, 5}, {2, 3})), {table}},
      {"embedding: one token", look_up(ints({2}, {})), {table}},
      {"embedding: no tokens", look_up(ints({}, {0})), {table}},
      {"embedding: one column", look_up(ints({2, 2}, {2})), {normal({3, 1})}},
      {"embedding: two look-ups",
       [](In x) {
         return embedding(x[0], ints({1, 2}, {2})) * embedding(x[0], ints({2, 2}, {2}));
       },
       {table}},
      {"embedding: tied to linear",
       [](In x) {
         return linear(embedding(x[0], ints({1, 2}, {2})), x[0]);
       },
       {table}},
      {"group_norm", by_groups({.groups = 3}), {planes, gains, gains}},
      {"group_norm: one group", by_groups({}), {planes, gains, gains}},
      {"group_norm: each channel", by_groups({.groups = 6}), {planes, gains, gains}},
      {"group_norm: no images", by_groups({}), {normal({0, 6, 3, 5}), gains, gains}},
      {"group_norm: no pixels", by_groups({}), {normal({2, 6, 0, 5}), gains, gains}},
      {"rms_norm", rms({}), {normal({4, 6}), normal({6})}},
      {"rms_norm: vector", rms({}), {normal({5}), normal({5})}},
      {"rms_norm: rank 3", rms({}), {normal({2, 3, 9}), normal({9})}},
      {"rms_norm: wider than a register", rms({}), {normal({3, 37}), normal({37})}},
      {"rms_norm: one column", rms({}), {normal({3, 1}), normal({1})}},
      {"rms_norm: no rows", rms({}), {normal({0, 3}), normal({3})}},
      {"rms_norm: no columns", rms({}), {normal({3, 0}), normal({0})}},
      {"rms_norm: many rows", rms({}), {normal({300, 5}), normal({5})}},
      {"rms_norm: large epsilon", rms({.epsilon = 0.5}), {normal({4, 6}), normal({6})}},
      {"rms_norm: heads", rms({}), {normal({2, 3, 12}), normal({4})}},
      {"rms_norm: heads between other columns",
       rms({.first = 3, .columns = 8}),
       {normal({2, 3, 13}), normal({4})}},
      {"rms_norm: many heads of many rows", rms({.columns = 24}), {normal({150, 28}), normal({3})}},
      {"rms_norm: no heads", rms({.columns = 0}), {normal({2, 6}), normal({3})}},
      {"rms_norm: x as its own weight", [](In x) { return rms_norm(x[0], x[0]); }, {normal({5})}},
      {"swiglu", gated, {normal({2, 3, 6})}},
      {"swiglu: wider than a register", gated, {normal({3, 74})}},
      {"swiglu: one pair", gated, {normal({2})}},
      {"swiglu: no rows", gated, {normal({0, 4})}},
      {"swiglu: no columns", gated, {normal({3, 0})}},
      {"layer_norm", norm, {normal({4, 6}), normal({6}), normal({6})}},
      {"layer_norm: vector", norm, {normal({5}), normal({5}), normal({5})}},
      {"layer_norm: rank 3", norm, {normal({2, 3, 9}), normal({9}), normal({9})}},
      {"layer_norm: wider than a register", norm, {normal({3, 37}), normal({37}), normal({37})}},
      {"layer_norm: one column", norm, {normal({3, 1}), normal({1}), normal({1})}},
      {"layer_norm: no rows", norm, {normal({0, 3}), normal({3}), normal({3})}},
      {"layer_norm: many rows", norm, {normal({300, 5}), normal({5}), normal({5})}},
      {"layer_norm: large epsilon",
       [](In x) { return layer_norm(x[0], x[1], x[2], 0.5); },
       {normal({4, 6}), normal({6}), normal({6})}},
      {"layer_norm: one tensor thrice",
       [](In x) { return layer_norm(x[0], x[0], x[0]); },
       {normal({5})}},
  };
}

std::vector<OpRow> convolution_ops() {
  const auto forth = [](const ConvolutionOptions& options) {
    return [options](In x) { return convolution2d(x[0], x[1], options); };
  };
  const auto back = [](const TransposedConvolutionOptions& options) {
    return [options](In x) { return transposed_convolution2d(x[0], x[1], options); };
  };
  const auto largest = [](const PoolOptions& options) {
    return [options](In x) { return max_pool2d(x[0], options); };
  };
  const auto average = [](const PoolOptions& options) {
    return [options](In x) { return average_pool2d(x[0], options); };
  };
  const Array image = normal({2, 3, 5, 4}), kernel = normal({2, 3, 3, 3});
  const Array features = normal({2, 2, 3, 2});
  return {
      {"convolution2d", forth({}), {image, kernel}},
      {"convolution2d: bias",
       [](In x) { return convolution2d(x[0], x[1], {.stride = 2, .padding = 1}, x[2]); },
       {image, kernel, normal({2})}},
      {"transposed_convolution2d: bias",
       [](In x) { return transposed_convolution2d(x[0], x[1], {.stride = 2}, x[2]); },
       {features, kernel, normal({3})}},
      {"convolution2d: padding", forth({.padding = 2}), {image, kernel}},
      {"convolution2d: stride, odd and even", forth({.stride = 2, .padding = 1}), {image, kernel}},
      {"convolution2d: stride above the kernel", forth({.stride = 4}), {image, kernel}},
      {"convolution2d: much padding", forth({.stride = 2, .padding = 4}), {image, kernel}},
      {"convolution2d: even kernel", forth({.padding = 1}), {image, normal({1, 3, 2, 2})}},
      {"convolution2d: one pixel", forth({}), {normal({2, 3, 1, 1}), normal({4, 3, 1, 1})}},
      {"convolution2d: the whole image", forth({}), {normal({1, 2, 4, 4}), normal({3, 2, 4, 4})}},
      {"convolution2d: no images", forth({.padding = 1}), {normal({0, 3, 5, 4}), kernel}},
      {"convolution2d: an image with itself",
       [](In x) { return convolution2d(x[0], x[0], {.padding = 1}); },
       {normal({2, 2, 3, 3})}},
      {"transposed_convolution2d", back({}), {features, kernel}},
      {"transposed_convolution2d: stride", back({.stride = 2}), {features, kernel}},
      {"transposed_convolution2d: stride, odd and even",
       back({.stride = 2, .padding = 1, .height = 5, .width = 4}),
       {features, kernel}},
      {"transposed_convolution2d: long stride",
       back({.stride = 5, .height = 15}),
       {features, kernel}},
      {"transposed_convolution2d: padding", back({.padding = 1}), {features, kernel}},
      {"transposed_convolution2d: no images", back({}), {normal({0, 2, 3, 2}), kernel}},
      {"max_pool2d", largest({}), {image}},
      {"max_pool2d: overlapping", largest({.kernel = 3, .stride = 2, .padding = 1}), {image}},
      {"max_pool2d: gaps", largest({.kernel = 2, .stride = 3, .padding = 1}), {image}},
      {"max_pool2d: single pixels", largest({.kernel = 1, .stride = 1}), {image}},
      {"max_pool2d: no images", largest({}), {normal({0, 3, 5, 4})}},
      {"average_pool2d", average({}), {image}},
      {"average_pool2d: overlapping", average({.kernel = 3, .stride = 1, .padding = 1}), {image}},
      {"average_pool2d: gaps", average({.kernel = 2, .stride = 3, .padding = 1}), {image}},
      {"average_pool2d: no images", average({}), {normal({0, 3, 5, 4})}},
  };
}

std::vector<OpRow> graph_ops() {
  const auto sum_on = [](const Adjacency& graph) {
    return [graph](In x) { return neighbor_sum(graph, x[0]); };
  };
  const auto weighted_on = [](const Adjacency& graph) {
    return [graph](In x) { return neighbor_sum(graph, x[0], x[1]); };
  };
  const auto products_on = [](const Adjacency& graph, std::int64_t heads) {
    return [graph, heads](In x) { return edge_products(graph, x[0], x[1], heads); };
  };
  const auto weights_on = [](const Adjacency& graph) {
    return [graph](In x) { return edge_softmax(graph, x[0], x[1], 0.2); };
  };
  const auto softmax_of = [](const Array& offsets) {
    return [offsets](In x) { return segment_softmax(x[0], offsets); };
  };
  const auto windows = [](const UnfoldOptions& options) {
    return [options](In x) { return unfold(x[0], options); };
  };
  const Adjacency none, edgeless(3, {});
  const Array parts = ints({0, 2, 2, 6, 7}, {5}), whole = ints({0, 0}, {2}),
              nothing = ints({0}, {1});
  const Array sevens = row({100, -100, 1e3, 1e3, 0, -1e3, 5}).reshaped({7, 1});
  std::vector<OpRow> rows = {
      {"neighbor_sum", sum_on(small_graph), {normal({6, 3})}},
      {"neighbor_sum: weighted", weighted_on(small_graph), {normal({6, 3}), normal({6, 1})}},
      {"neighbor_sum: heads", weighted_on(small_graph), {normal({6, 6}), normal({6, 3})}},
      {"neighbor_sum: one column", weighted_on(small_graph), {normal({6, 1}), normal({6, 1})}},
      {"neighbor_sum: wide", weighted_on(small_graph), {normal({6, 70}), normal({6, 2})}},
      {"neighbor_sum: no columns", sum_on(small_graph), {normal({6, 0})}},
      {"neighbor_sum: no nodes", weighted_on(none), {normal({0, 3}), normal({0, 1})}},
      {"neighbor_sum: no edges", weighted_on(edgeless), {normal({3, 2}), normal({0, 1})}},
      {"neighbor_sum: sources of another set",
       weighted_on(Adjacency(4, 3, {{3, 0}, {0, 2}, {1, 2}, {3, 2}})),
       {normal({4, 6}), normal({4, 2})}},
      {"neighbor_sum: more nodes than sources",
       sum_on(Adjacency(2, 5, {{1, 0}, {0, 4}, {1, 4}})),
       {normal({2, 3})}},
      {"neighbor_sum: used twice",
       [](In x) { return neighbor_sum(small_graph, neighbor_sum(small_graph, x[0], x[1]), x[1]); },
       {normal({6, 3}), normal({6, 1})}},
      {"edge_products", products_on(small_graph, 1), {normal({6, 3}), normal({6, 3})}},
      {"edge_products: heads", products_on(small_graph, 3), {normal({6, 6}), normal({6, 6})}},
      {"edge_products: one column", products_on(small_graph, 1), {normal({6, 1}), normal({6, 1})}},
      {"edge_products: no nodes", products_on(none, 1), {normal({0, 3}), normal({0, 3})}},
      {"edge_products: no edges", products_on(edgeless, 2), {normal({3, 2}), normal({3, 2})}},
      {"edge_products: x with itself",
       [](In x) { return edge_products(small_graph, x[0], x[0]); },
       {normal({6, 3})}},
      {"edge_softmax", weights_on(small_graph), {normal({6, 1}), normal({6, 1})}},
      {"edge_softmax: heads", weights_on(small_graph), {normal({6, 5}), normal({6, 5})}},
      {"edge_softmax: no nodes", weights_on(none), {normal({0, 2}), normal({0, 2})}},
      {"edge_softmax: no edges", weights_on(edgeless), {normal({3, 2}), normal({3, 2})}},
      {"edge_softmax: sources of another set",
       weights_on(Adjacency(4, 3, {{3, 0}, {0, 2}, {1, 2}, {3, 2}})),
       {normal({3, 2}), normal({4, 2})}},
      {"edge_softmax: scores of a node with itself",
       [](In x) { return edge_softmax(small_graph.with_loops(), x[0], x[0], 0.2); },
       {normal({6, 3})}},
      {"segment_softmax", softmax_of(parts), {normal({7, 3})}},
      {"segment_softmax: ±1e3", softmax_of(parts), {sevens}},
      {"segment_softmax: wide", softmax_of(parts), {normal({7, 37})}},
      {"segment_softmax: no rows", softmax_of(whole), {normal({0, 3})}},
      {"segment_softmax: no segments", softmax_of(nothing), {normal({0, 3})}},
      {"unfold", windows({}), {normal({2, 5, 3})}},
      {"unfold: width 1", windows({.width = 1}), {normal({2, 5, 3})}},
      {"unfold: every second", windows({.width = 4, .stride = 2}), {normal({2, 7, 2})}},
      {"unfold: gaps", windows({.width = 2, .stride = 3}), {normal({1, 9, 1})}},
      {"unfold: longer than the sequence", windows({.width = 6}), {normal({2, 5, 3})}},
      {"unfold: no examples", windows({}), {normal({0, 5, 3})}},
      {"unfold: no steps", windows({}), {normal({2, 0, 3})}},
  };
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&, const Array&)>> pools = {
      {"segment_sum", segment_sum}, {"segment_mean", segment_mean}, {"segment_max", segment_max}};
  for (const auto& [name, op] : pools)
    for (const auto& [variant, offsets, x] : {std::tuple{"", parts, apart({7, 3})},
                                              {": one column", parts, apart({7, 1})},
                                              {": wide", parts, apart({7, 37})},
                                              {": no rows", whole, normal({0, 3})},
                                              {": no columns", parts, normal({7, 0})},
                                              {": no segments", nothing, normal({0, 3})}})
      rows.push_back({fmt::format("{}{}", name, variant),
                      [op = op, offsets = offsets](In in) { return op(in[0], offsets); },
                      {x}});
  return rows;
}

}  // namespace tapestry
