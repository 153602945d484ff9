#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>

#include "autograd/check.hpp"
#include "autograd/gradcheck.hpp"
#include "autograd/ops.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

using In = const std::vector<Tensor>&;
using Function = std::function<Tensor(In)>;

constexpr double infinity = std::numeric_limits<double>::infinity();

// "op" or "op: variant"; f is checked by each of its inputs.
struct Row {
  std::string name;
  Function f;
  std::vector<Array> inputs;
  GradcheckOptions options = {};

  std::string op() const { return name.substr(0, name.find(':')); }
};

Array normal(const Shape& shape, std::uint64_t seed = 0) {
  static std::uint64_t step = 0;
  Array array(shape, DType::float64);
  Random(seed, Stream::data, ++step).fill_normal(array, 0, 1);
  return array;
}

// Away from 0, where relu and 1/x bend, and from any tie: |x| = 0.5 + 0.1 × a shuffled index.
Array apart(const Shape& shape) {
  Array array = normal(shape);
  const auto x = array.mutable_values<double>();
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](auto i, auto j) { return std::abs(x[i]) < std::abs(x[j]); });
  for (std::size_t i = 0; i < order.size(); ++i)
    x[order[i]] = std::copysign(0.5 + 0.1 * static_cast<double>(i), x[order[i]]);
  return array;
}

Array positive(const Shape& shape) {
  Array array = apart(shape);
  for (double& x : array.mutable_values<double>()) x = std::abs(x);
  return array;
}

Array row(const std::vector<double>& values) { return Array::of(values, {std::ssize(values)}); }

Array ints(const std::vector<std::int32_t>& values, const Shape& shape) {
  return Array::of(values, shape);
}

Array zeros(const Shape& shape) { return Array::zeros(shape, DType::float64); }

// An additive mask (rows, columns) that hides the keys for which hide(row, column) holds.
Array mask_where(std::int64_t rows, std::int64_t columns,
                 bool (*hide)(std::int64_t, std::int64_t)) {
  Array mask = normal({rows, columns});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    if (hide(i / columns, i % columns)) mask.mutable_values<double>()[i] = -infinity;
  return mask;
}

// A small step away from large numbers is rounded; a larger one bends less than it gains.
const GradcheckOptions large{.step = 1e-4};

Tensor attention(In x, const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(x[0], x[1], x[2], options);
}

std::vector<Array> attention_inputs(std::int64_t T, std::int64_t S, std::int64_t C) {
  return {normal({2, T, C}), normal({2, S, C}), normal({2, S, C})};
}

std::vector<Array> heads_inputs(std::int64_t T, std::int64_t S, std::int64_t D) {
  return {normal({1, 2, T, D}), normal({1, 2, S, D}), normal({1, 2, S, D})};
}

std::vector<Row> unary_rows() {
  const std::vector<Array> x = {apart({3, 7})}, empty = {normal({0, 3})}, scalar = {apart({})};
  const std::vector<Array> wide = {row({-100, -30, -5, -1e-3, 0, 1e-3, 5, 30, 100})};
  const std::vector<Array> above = {row({0.1, 0.5, 1, 40, 1e4})};
  std::vector<Row> rows = {
      {"exp: wide", [](In v) { return exp(v[0]); }, {row({-700, -100, -1, 0, 1, 3})}},
      {"log: wide", [](In v) { return log(v[0]); }, above},
      {"sqrt: wide", [](In v) { return sqrt(v[0]); }, above},
      {"log", [](In v) { return log(v[0]); }, {positive({3, 7})}},
      {"sqrt", [](In v) { return sqrt(v[0]); }, {positive({3, 7})}},
      {"scale", [](In v) { return scale(v[0], -2.5); }, x},
      {"scale: by 0", [](In v) { return scale(v[0], 0); }, x},
      {"dropout",
       [](In v) {
         Random random(1, Stream::dropout);
         return dropout(v[0], 0.4, random);
       },
       {normal({5, 9})}},
      {"recompute",
       [](In v) {
         Random random(1, Stream::dropout);
         return recompute(v[0], &random, [&](const Tensor& t, Random* noise) {
           return tanh(dropout(t, 0.4, *noise) * v[1]);  // v[1] is met inside
         });
       },
       {normal({5, 9}), normal({9})}},
      {"recompute: of a constant, without noise",
       [](In v) {
         const auto times = [&](const Tensor& t, Random*) { return t * v[0]; };
         return recompute(Array::full({9}, 2, DType::float64), nullptr, times);
       },
       {normal({9})}},
      {"dropout: rate 0",
       [](In v) {
         Random random(1, Stream::dropout);
         return dropout(v[0], 0, random);
       },
       x},
  };
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> smooth = {
      {"sin", sin},   {"cos", cos},           {"tanh", tanh}, {"sigmoid", sigmoid},
      {"relu", relu}, {"softplus", softplus}, {"gelu", gelu}, {"gelu_tanh", gelu_tanh}};
  for (const auto& [name, op] : smooth) {
    const Function f = [op = op](In v) { return op(v[0]); };
    rows.push_back({name, f, x});
    rows.push_back({fmt::format("{}: scalar", name), f, scalar});
    rows.push_back({fmt::format("{}: empty", name), f, empty});
    if (std::string(name) != "relu") rows.push_back({fmt::format("{}: ±100", name), f, wide});
  }
  rows.push_back({"exp", [](In v) { return exp(v[0]); }, x});
  return rows;
}

std::vector<Row> arithmetic_rows() {
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&, const Tensor&)>> ops = {
      {"add", add}, {"subtract", subtract}, {"multiply", multiply}, {"divide", divide}};
  const std::vector<std::tuple<const char*, Shape, Shape>> shapes = {
      {"same shape", {3, 5}, {3, 5}},
      {"scalars", {}, {}},
      {"scalar b", {3, 5}, {}},
      {"scalar a", {}, {3, 5}},
      {"row", {3, 5}, {5}},
      {"row a", {5}, {3, 5}},
      {"column", {3, 5}, {3, 1}},
      {"column a", {3, 1}, {3, 5}},
      {"both stretched", {3, 1}, {1, 5}},
      {"one element", {3, 5}, {1, 1}},
      {"rank difference", {2, 3, 4}, {4}},
      {"middle axis", {2, 3, 4}, {2, 1, 4}},
      {"stretched ends", {1, 3, 1}, {2, 1, 4}},
      {"both ranks", {3, 1}, {2, 1, 4}},
      {"ones", {1, 1}, {1}},
      {"rank 5", {2, 1, 2, 1, 2}, {1, 2, 1, 2, 1}},
      {"empty", {0, 3}, {0, 3}},
      {"empty by row", {0, 3}, {3}},
      {"empty by one", {2, 0}, {2, 1}},
      {"empty by scalar", {0}, {}}};
  std::vector<Row> rows;
  for (const auto& [name, op] : ops) {
    for (const auto& [variant, a, b] : shapes)
      rows.push_back({fmt::format("{}: {}", name, variant),
                      [op = op](In x) { return op(x[0], x[1]); },
                      {apart(a), apart(b)}});
    rows.push_back({fmt::format("{}: x with itself", name),
                    [op = op](In x) { return op(x[0], x[0]); },
                    {apart({3, 5})}});
    rows.push_back({fmt::format("{}: x with its sum", name),
                    [op = op](In x) { return op(x[0], sum(x[0], {0})); },
                    {positive({3, 5})}});
  }
  return rows;
}

std::vector<Row> reduce_rows() {
  const std::vector<
      std::pair<const char*, Tensor (*)(const Tensor&, const std::vector<int>&, Keep)>>
      ops = {{"sum", sum}, {"mean", mean}, {"max", max}};
  const std::vector<std::pair<Shape, std::vector<int>>> cases = {{{3, 5}, {}},
                                                                 {{3, 5}, {0}},
                                                                 {{3, 5}, {1}},
                                                                 {{3, 5}, {-1}},
                                                                 {{2, 3, 4}, {1}},
                                                                 {{2, 3, 4}, {0, 2}},
                                                                 {{2, 3, 4}, {-1, 0}},
                                                                 {{2, 3, 4}, {0, 1, 2}},
                                                                 {{2, 1, 4}, {1}},
                                                                 {{1, 1}, {}},
                                                                 {{}, {}},
                                                                 {{130, 3}, {0}},
                                                                 {{2, 130, 3}, {1}},
                                                                 {{3, 130}, {1}},
                                                                 {{0, 3}, {1}},
                                                                 {{2, 0, 3}, {0}},
                                                                 {{2, 3, 4, 2}, {1, 3}},
                                                                 {{2, 2, 2, 2, 2}, {1, 2}}};
  std::vector<Row> rows;
  for (const auto& [name, op] : ops)
    for (const auto& [shape, axes] : cases)
      for (const Keep keep : {Keep::no, Keep::yes})
        rows.push_back({fmt::format("{}: axes [{}] of {}{}", name, fmt::join(axes, " "),
                                    to_string(shape), keep == Keep::yes ? ", kept" : ""),
                        [op = op, axes = axes, keep](In x) { return op(x[0], axes, keep); },
                        {apart(shape)}});
  rows.push_back(
      {"sum: over an empty axis", [](In x) { return sum(x[0], {0}); }, {normal({0, 3})}});
  rows.push_back({"sum: of nothing", [](In x) { return sum(x[0]); }, {normal({0, 3})}});
  return rows;
}

std::vector<Row> shaping_rows() {
  const Array x = normal({2, 3, 4});
  return {
      {"reshape",
       [](In v) {
         return reshape(v[0], {4, 6});
       },
       {x}},
      {"reshape: inferred",
       [](In v) {
         return reshape(v[0], {2, -1});
       },
       {x}},
      {"reshape: flat", [](In v) { return reshape(v[0], {-1}); }, {x}},
      {"reshape: ones",
       [](In v) {
         return reshape(v[0], {1, 2, 1, 12});
       },
       {x}},
      {"reshape: to a scalar", [](In v) { return reshape(v[0], {}); }, {normal({1, 1})}},
      {"reshape: empty",
       [](In v) {
         return reshape(v[0], {3, 0, 2});
       },
       {normal({0, 4})}},
      {"reshape: then used twice", [](In v) { return reshape(v[0], {3}) * v[0]; }, {normal({3})}},
      {"permute: matrix",
       [](In v) {
         return permute(v[0], {1, 0});
       },
       {normal({3, 5})}},
      {"permute: 0 1 2",
       [](In v) {
         return permute(v[0], {0, 1, 2});
       },
       {x}},
      {"permute: 0 2 1",
       [](In v) {
         return permute(v[0], {0, 2, 1});
       },
       {x}},
      {"permute: 1 0 2",
       [](In v) {
         return permute(v[0], {1, 0, 2});
       },
       {x}},
      {"permute: 2 0 1",
       [](In v) {
         return permute(v[0], {2, 0, 1});
       },
       {x}},
      {"permute: 1 2 0",
       [](In v) {
         return permute(v[0], {1, 2, 0});
       },
       {x}},
      {"permute: -1 -2 -3",
       [](In v) {
         return permute(v[0], {-1, -2, -3});
       },
       {x}},
      {"permute: heads",
       [](In v) {
         return permute(v[0], {0, 2, 1, 3});
       },
       {normal({2, 3, 2, 3})}},
      {"permute: scalar", [](In v) { return permute(v[0], {}); }, {normal({})}},
      {"permute: empty",
       [](In v) {
         return permute(v[0], {1, 0});
       },
       {normal({3, 0})}},
      {"slice: first axis", [](In v) { return slice(v[0], 0, 1, 2); }, {x}},
      {"slice: middle axis", [](In v) { return slice(v[0], 1, 0, 2); }, {x}},
      {"slice: last axis", [](In v) { return slice(v[0], -1, 1, 4); }, {x}},
      {"slice: whole", [](In v) { return slice(v[0], 1, 0, 3); }, {x}},
      {"slice: nothing", [](In v) { return slice(v[0], 1, 2, 2); }, {x}},
      {"slice: overlapping",
       [](In v) { return slice(v[0], 0, 0, 3) * slice(v[0], 0, 2, 5); },
       {normal({5, 2})}},
      {"concat: first axis",
       [](In v) {
         return concat({v[0], v[1]}, 0);
       },
       {normal({2, 3}), normal({4, 3})}},
      {"concat: last axis",
       [](In v) {
         return concat({v[0], v[1], v[2]}, -1);
       },
       {normal({2, 3}), normal({2, 1}), normal({2, 2})}},
      {"concat: middle axis",
       [](In v) {
         return concat({v[0], v[1]}, 1);
       },
       {normal({2, 3, 2}), normal({2, 1, 2})}},
      {"concat: one", [](In v) { return concat({v[0]}, 0); }, {normal({2, 3})}},
      {"concat: with nothing",
       [](In v) {
         return concat({v[0], v[1]}, 1);
       },
       {normal({2, 3}), normal({2, 0})}},
      {"concat: x with itself",
       [](In v) {
         return concat({v[0], v[0]}, 0) * 2.0;
       },
       {normal({2, 3})}},
  };
}

std::vector<Row> softmax_rows() {
  const Array x = normal({3, 7}), wide = normal({2, 37}), one = normal({3, 1});
  const Array far = Array::of(std::vector{1e4, -1e4, 0., -1e4, -1e4, -1e4, 1e4, 1e4, 1e4}, {3, 3});
  const Array near =
      Array::of(std::vector{1e4, 1e4 + 1, 1e4 - 1, -1e4, -1e4 + 1, -1e4 - 1}, {2, 3});
  std::vector<Row> rows;
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> ops = {
      {"softmax", softmax}, {"log_softmax", log_softmax}, {"logsumexp", logsumexp}};
  for (const auto& [name, op] : ops) {
    const Function f = [op = op](In v) { return op(v[0]); };
    rows.push_back({name, f, {x}});
    rows.push_back({fmt::format("{}: wider than a register", name), f, {wide}});
    rows.push_back({fmt::format("{}: vector", name), f, {normal({5})}});
    rows.push_back({fmt::format("{}: rank 3", name), f, {normal({2, 3, 4})}});
    rows.push_back({fmt::format("{}: one class", name), f, {one}});
    rows.push_back({fmt::format("{}: no rows", name), f, {normal({0, 3})}});
    if (op != logsumexp)  // which is -inf there
      rows.push_back({fmt::format("{}: empty rows", name), f, {normal({3, 0})}});
    rows.push_back({fmt::format("{}: ±1e4", name), f, {far}, large});
    rows.push_back({fmt::format("{}: around ±1e4", name), f, {near}, large});
  }
  return rows;
}

std::vector<Row> matmul_rows() {
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
  std::vector<Row> rows;
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
  return rows;
}

std::vector<Row> model_rows() {
  const Array table = normal({6, 3});
  const auto look_up = [](const Array& tokens) {
    return [tokens](In x) { return embedding(x[0], tokens); };
  };
  const Function norm = [](In x) { return layer_norm(x[0], x[1], x[2]); };
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

std::vector<Row> attention_rows() {
  const auto with = [](const AttentionOptions& options) {
    return [options](In x) { return attention(x, options); };
  };
  const auto self = [](const AttentionOptions& options) {
    return [options](In x) { return packed_self_attention(x[0], options); };
  };
  const auto cross = [](const AttentionOptions& options) {
    return [options](In x) { return packed_cross_attention(x[0], x[1], options); };
  };
  const Array padding = ints({0, 0, 1, 0, 1, 1, 0, 0, 0, 0}, {2, 5});
  const Array nobody = ints({1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {2, 5});
  const Array additive = normal({3, 5});
  const Array hidden = mask_where(3, 5, [](auto t, auto s) { return (t + s) % 3 == 0; });
  const Array whole_row = mask_where(3, 5, [](auto t, auto) { return t == 1; });
  const Array far_keys = mask_where(70, 130, [](auto, auto s) { return s < 64 || s > 100; });
  return {
      {"scaled_dot_product_attention: rank 3", with({}), attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: rank 4", with({}), heads_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: 2 heads", with({.heads = 2}), attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: 4 heads", with({.heads = 4}), attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: D 1", with({}), attention_inputs(3, 5, 1)},
      {"scaled_dot_product_attention: D 20", with({}), attention_inputs(3, 5, 20)},
      {"scaled_dot_product_attention: T 1", with({}), attention_inputs(1, 5, 3)},
      {"scaled_dot_product_attention: S 1", with({}), attention_inputs(3, 1, 3)},
      {"scaled_dot_product_attention: no queries", with({}), attention_inputs(0, 5, 3)},
      {"scaled_dot_product_attention: no keys", with({}), attention_inputs(3, 0, 3)},
      {"scaled_dot_product_attention: causal", with({.causal = true}), attention_inputs(5, 5, 3)},
      {"scaled_dot_product_attention: causal, T < S", with({.causal = true}),
       heads_inputs(3, 5, 3)},
      {"scaled_dot_product_attention: causal, T > S", with({.causal = true}),
       heads_inputs(5, 3, 3)},
      {"scaled_dot_product_attention: padding", with({.heads = 2, .key_padding = padding}),
       attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: padding hides all", with({.key_padding = nobody}),
       attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: causal and padding",
       with({.causal = true, .key_padding = padding}), attention_inputs(5, 5, 3)},
      {"scaled_dot_product_attention: mask", with({.mask = additive}), attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: mask with -inf", with({.mask = hidden}),
       heads_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: mask hides a row", with({.mask = whole_row}),
       attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: mask a head", with({.heads = 2, .mask = normal({2, 3, 5})}),
       attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: mask of all axes",
       with({.heads = 2, .mask = normal({2, 2, 3, 5})}), attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: mask a batch", with({.mask = normal({2, 1, 1, 5})}),
       attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: mask a query", with({.mask = normal({3, 1})}),
       attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: mask a key", with({.mask = normal({5})}),
       attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: keys", with({.keys = 3}), attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: keys, causal", with({.causal = true, .keys = 4}),
       heads_inputs(2, 6, 4)},
      {"scaled_dot_product_attention: no keys of 5", with({.keys = 0}), attention_inputs(3, 5, 4)},
      {"scaled_dot_product_attention: tiles", with({}), heads_inputs(70, 130, 3)},
      {"scaled_dot_product_attention: tiles, causal", with({.causal = true}),
       heads_inputs(130, 130, 3)},
      {"scaled_dot_product_attention: tiles, causal, T < S", with({.causal = true}),
       heads_inputs(66, 140, 3)},
      {"scaled_dot_product_attention: tiles, causal, T > S", with({.causal = true}),
       heads_inputs(140, 66, 3)},
      {"scaled_dot_product_attention: tiles, first tile hidden", with({.mask = far_keys}),
       heads_inputs(70, 130, 3)},
      {"scaled_dot_product_attention: whole tiles", with({}), heads_inputs(128, 64, 3)},
      {"scaled_dot_product_attention: window", with({.window = 2}), attention_inputs(5, 5, 3)},
      {"scaled_dot_product_attention: window of one, causal", with({.causal = true, .window = 1}),
       attention_inputs(5, 5, 3)},
      {"scaled_dot_product_attention: window, T < S", with({.window = 2}), heads_inputs(3, 6, 3)},
      {"scaled_dot_product_attention: window and causal, T > S, padded",
       with({.causal = true, .window = 3, .key_padding = ints({0, 1, 0, 0, 1, 0}, {2, 3})}),
       attention_inputs(5, 3, 3)},
      {"scaled_dot_product_attention: tiles, window", with({.window = 20}),
       heads_inputs(130, 200, 3)},
      {"scaled_dot_product_attention: tiles, window, causal", with({.causal = true, .window = 70}),
       heads_inputs(200, 200, 3)},
      {"scaled_dot_product_attention: x thrice",
       [](In x) { return scaled_dot_product_attention(x[0], x[0], x[0]); },
       {normal({1, 3, 4})}},
      {"packed_self_attention", self({}), {normal({2, 3, 12})}},
      {"packed_self_attention: heads, causal",
       self({.heads = 2, .causal = true}),
       {normal({2, 3, 12})}},
      {"packed_self_attention: tiles", self({.heads = 2, .causal = true}), {normal({1, 70, 18})}},
      {"packed_self_attention: keys", self({.keys = 2}), {normal({2, 3, 12})}},
      {"packed_self_attention: window", self({.causal = true, .window = 2}), {normal({2, 4, 12})}},
      {"packed_cross_attention", cross({}), {normal({2, 3, 4}), normal({2, 5, 8})}},
      {"packed_cross_attention: heads, padding",
       cross({.heads = 2, .key_padding = padding}),
       {normal({2, 3, 4}), normal({2, 5, 8})}},
      {"packed_cross_attention: keys", cross({.keys = 4}), {normal({2, 3, 4}), normal({2, 5, 8})}},
      {"packed_cross_attention: tiles", cross({}), {normal({1, 66, 3}), normal({1, 130, 6})}},
  };
}

std::vector<Row> rotary_rows() {
  const auto with = [](const RotaryOptions& options) {
    return [options](In x) { return rotary(x[0], options); };
  };
  return {
      {"rotary", with({}), {normal({3, 6})}},
      {"rotary: heads of queries and keys, beside values",
       with({.head_width = 4, .columns = 16, .first = 3}),
       {normal({2, 5, 24})}},
      {"rotary: rank 4", with({.first = 100}), {normal({2, 2, 3, 2})}},
      {"rotary: no columns", with({.head_width = 2, .columns = 0}), {normal({3, 6})}},
      {"rotary: no rows", with({}), {normal({2, 0, 4})}},
      {"rotary: wider than a register", with({.head_width = 34}), {normal({7, 68})}},
  };
}

std::vector<Row> convolution_rows() {
  const auto forth = [](const ConvolutionOptions& options) {
    return [options](In x) { return convolution2d(x[0], x[1], options); };
  };
  const auto back = [](const TransposedConvolutionOptions& options) {
    return [options](In x) { return transposed_convolution2d(x[0], x[1], options); };
  };
  const Array image = normal({2, 3, 5, 4}), kernel = normal({2, 3, 3, 3});
  const Array features = normal({2, 2, 3, 2});
  return {
      {"convolution2d", forth({}), {image, kernel}},
      {"convolution2d: padding", forth({.padding = 2}), {image, kernel}},
      {"convolution2d: stride, odd and even", forth({.stride = 2, .padding = 1}), {image, kernel}},
      {"convolution2d: stride above the kernel", forth({.stride = 4}), {image, kernel}},
      {"convolution2d: more padding than kernel",
       forth({.stride = 2, .padding = 4}),
       {image, kernel}},
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
      {"transposed_convolution2d: stride above the kernel",
       back({.stride = 5, .height = 15}),
       {features, kernel}},
      {"transposed_convolution2d: padding", back({.padding = 1}), {features, kernel}},
      {"transposed_convolution2d: no images", back({}), {normal({0, 2, 3, 2}), kernel}},
  };
}

// Gates in (0, 1), so that long recurrences stay of the size of their inputs.
Array gates(const Shape& shape) {
  Array array = normal(shape);
  for (double& x : array.mutable_values<double>()) x = 1 / (1 + std::exp(-x));
  return array;
}

std::vector<Row> scan_rows() {
  const Function linear_scan = [](In x) { return linear_recurrence(x[0], x[1]); };
  const Function tanh_scan = [](In x) { return tanh_recurrence(x[0], x[1]); };
  const Function tanh_after = [](In x) { return tanh_recurrence(x[0], x[1], x[2]); };
  const Array x = normal({2, 5, 3}), weight = normal({3, 3});
  return {
      {"linear_recurrence", linear_scan, {gates({2, 5, 3}), x}},
      {"linear_recurrence: any gates", linear_scan, {normal({2, 5, 3}), x}},
      {"linear_recurrence: one gate", linear_scan, {gates({}), x}},
      {"linear_recurrence: a gate a column", linear_scan, {gates({3}), x}},
      {"linear_recurrence: a gate a step", linear_scan, {gates({5, 1}), x}},
      {"linear_recurrence: T 1", linear_scan, {gates({2, 1, 3}), normal({2, 1, 3})}},
      {"linear_recurrence: one column", linear_scan, {gates({2, 7, 1}), normal({2, 7, 1})}},
      {"linear_recurrence: wide", linear_scan, {gates({2, 4, 131}), normal({2, 4, 131})}},
      {"linear_recurrence: no steps", linear_scan, {gates({2, 0, 3}), normal({2, 0, 3})}},
      {"linear_recurrence: no examples", linear_scan, {gates({0, 5, 3}), normal({0, 5, 3})}},
      {"linear_recurrence: x as its own gate",
       [](In v) { return linear_recurrence(v[0], v[0]); },
       {gates({2, 4, 3})}},
      {"linear_recurrence: used twice",
       [](In v) {
         const Tensor h = linear_recurrence(v[0], v[1]);
         return h * linear_recurrence(v[0], h);
       },
       {gates({2, 4, 3}), normal({2, 4, 3})}},
      {"tanh_recurrence", tanh_scan, {x, weight}},
      {"tanh_recurrence: initial", tanh_after, {x, weight, normal({2, 3})}},
      {"tanh_recurrence: T 1", tanh_after, {normal({2, 1, 3}), weight, normal({2, 3})}},
      {"tanh_recurrence: one column", tanh_scan, {normal({2, 7, 1}), normal({1, 1})}},
      {"tanh_recurrence: one example",
       tanh_after,
       {normal({1, 6, 4}), normal({4, 4}), normal({1, 4})}},
      {"tanh_recurrence: no examples", tanh_after, {normal({0, 5, 3}), weight, normal({0, 3})}},
      {"tanh_recurrence: no steps", tanh_scan, {normal({2, 0, 3}), weight}},
      {"tanh_recurrence: in two parts",
       [](In v) {
         const Tensor first = tanh_recurrence(slice(v[0], 1, 0, 2), v[1], v[2]);
         const Tensor state = reshape(slice(first, 1, 1, 2), {2, 3});
         return concat({first, tanh_recurrence(slice(v[0], 1, 2, 5), v[1], state)}, 1);
       },
       {x, weight, normal({2, 3})}},
  };
}

// Sums of a few of either sign could come near 0, where the quotient bends too much.
Array features(const Shape& shape) {
  Array array = normal(shape);
  for (double& x : array.mutable_values<double>()) x = std::abs(x) + 0.1;
  return array;
}

std::vector<Row> linear_attention_rows() {
  using Options = LinearAttentionOptions;
  const auto with = [](const Options& options) {
    return [options](In x) { return linear_attention(x[0], x[1], x[2], {}, options); };
  };
  const auto gated = [](const Options& options) {
    return [options](In x) { return linear_attention(x[0], x[1], x[2], x[3], options); };
  };
  const auto inputs = [](std::int64_t T, std::int64_t S) {
    return std::vector<Array>{features({2, 2, 3, T}), features({2, 2, 3, S}), normal({2, S, 4})};
  };
  const auto gated_inputs = [](std::int64_t T) {
    return std::vector<Array>{features({2, 2, 3, T}), features({2, 2, 3, T}), normal({2, T, 4}),
                              normal({2, T, 2})};
  };
  const Array padding = ints({0, 0, 1, 0, 1, 1, 0, 0, 0, 0}, {2, 5});
  const Array nobody = ints({1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {2, 5});
  const Array scales = normal({2, 2, 5});
  return {
      {"linear_attention", with({}), inputs(3, 5)},
      {"linear_attention: padding", with({.key_padding = padding}), inputs(3, 5)},
      {"linear_attention: padding hides all", with({.key_padding = nobody}), inputs(3, 5)},
      {"linear_attention: scaled keys", with({.key_log_scales = scales}), inputs(3, 5)},
      {"linear_attention: floored", with({.key_padding = padding, .floor = 1e3}), inputs(3, 5)},
      {"linear_attention: no queries", with({}), inputs(0, 5)},
      {"linear_attention: no keys", with({}), inputs(3, 0)},
      {"linear_attention: chunks", with({}), inputs(70, 130)},
      {"linear_attention: causal", with({.causal = true}), inputs(5, 5)},
      {"linear_attention: causal, one step", with({.causal = true}), inputs(1, 1)},
      {"linear_attention: causal, no step", with({.causal = true}), inputs(0, 0)},
      {"linear_attention: causal, padding", with({.causal = true, .key_padding = padding}),
       inputs(5, 5)},
      {"linear_attention: causal, first keys hidden", with({.causal = true, .key_padding = nobody}),
       inputs(5, 5)},
      {"linear_attention: causal, scaled keys", with({.causal = true, .key_log_scales = scales}),
       inputs(5, 5)},
      {"linear_attention: causal, floored", with({.causal = true, .floor = 1e3}), inputs(5, 5)},
      {"linear_attention: causal, chunks", with({.causal = true}), inputs(150, 150)},
      {"linear_attention: causal, whole chunks", with({.causal = true}), inputs(128, 128)},
      {"linear_attention: gate", gated({.causal = true}), gated_inputs(5)},
      {"linear_attention: gate, padding", gated({.causal = true, .key_padding = padding}),
       gated_inputs(5)},
      {"linear_attention: gate, scaled keys", gated({.causal = true, .key_log_scales = scales}),
       gated_inputs(5)},
      {"linear_attention: gate, floored",
       gated({.causal = true, .key_padding = padding, .floor = 1e3}), gated_inputs(5)},
      {"linear_attention: gate, chunks", gated({.causal = true}), gated_inputs(150)},
      {"linear_attention: gate, chunks, floored", gated({.causal = true, .floor = 1e3}),
       gated_inputs(150)},
      {"linear_attention: one tensor as queries and keys",
       [](In x) { return linear_attention(x[0], x[0], x[1], {}, {.causal = true}); },
       {features({1, 1, 3, 5}), normal({1, 5, 2})}},
      {"sine_features", [](In x) { return sine_features(x[0]); }, {normal({2, 3, 5})}},
      {"sine_features: wider than a register",
       [](In x) { return sine_features(x[0]); },
       {normal({3, 37})}},
      {"sine_features: no steps", [](In x) { return sine_features(x[0]); }, {normal({3, 0})}},
      {"unit_rows", [](In x) { return unit_rows(x[0]); }, {normal({2, 3, 5})}},
      {"unit_rows: wider than a register", [](In x) { return unit_rows(x[0]); }, {normal({2, 37})}},
      {"unit_rows: no rows", [](In x) { return unit_rows(x[0]); }, {normal({0, 3})}},
  };
}

// Nodes 4 and 5 have no edges, node 2 leads to itself.
const Adjacency small_graph(6, {{0, 1}, {1, 0}, {2, 2}, {0, 2}, {3, 0}, {1, 2}});

std::vector<Row> graph_rows() {
  const auto sum_on = [](const Adjacency& graph) {
    return [graph](In x) { return neighbour_sum(graph, x[0]); };
  };
  const auto weighted_on = [](const Adjacency& graph) {
    return [graph](In x) { return neighbour_sum(graph, x[0], x[1]); };
  };
  const auto products_on = [](const Adjacency& graph, std::int64_t heads) {
    return [graph, heads](In x) { return edge_products(graph, x[0], x[1], heads); };
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
  std::vector<Row> rows = {
      {"neighbour_sum", sum_on(small_graph), {normal({6, 3})}},
      {"neighbour_sum: weighted", weighted_on(small_graph), {normal({6, 3}), normal({6, 1})}},
      {"neighbour_sum: heads", weighted_on(small_graph), {normal({6, 6}), normal({6, 3})}},
      {"neighbour_sum: one column", weighted_on(small_graph), {normal({6, 1}), normal({6, 1})}},
      {"neighbour_sum: wide", weighted_on(small_graph), {normal({6, 70}), normal({6, 2})}},
      {"neighbour_sum: no columns", sum_on(small_graph), {normal({6, 0})}},
      {"neighbour_sum: no nodes", weighted_on(none), {normal({0, 3}), normal({0, 1})}},
      {"neighbour_sum: no edges", weighted_on(edgeless), {normal({3, 2}), normal({0, 1})}},
      {"neighbour_sum: used twice",
       [](In x) {
         return neighbour_sum(small_graph, neighbour_sum(small_graph, x[0], x[1]), x[1]);
       },
       {normal({6, 3}), normal({6, 1})}},
      {"edge_products", products_on(small_graph, 1), {normal({6, 3}), normal({6, 3})}},
      {"edge_products: heads", products_on(small_graph, 3), {normal({6, 6}), normal({6, 6})}},
      {"edge_products: one column", products_on(small_graph, 1), {normal({6, 1}), normal({6, 1})}},
      {"edge_products: no nodes", products_on(none, 1), {normal({0, 3}), normal({0, 3})}},
      {"edge_products: no edges", products_on(edgeless, 2), {normal({3, 2}), normal({3, 2})}},
      {"edge_products: x with itself",
       [](In x) { return edge_products(small_graph, x[0], x[0]); },
       {normal({6, 3})}},
      {"segment_softmax", softmax_of(parts), {normal({7, 3})}},
      {"segment_softmax: ±1e3", softmax_of(parts), {sevens}},
      {"segment_softmax: wide", softmax_of(parts), {normal({7, 37})}},
      {"segment_softmax: no rows", softmax_of(whole), {normal({0, 3})}},
      {"segment_softmax: no segments", softmax_of(nothing), {normal({0, 3})}},
      {"unfold", windows({.before = 1, .after = 1}), {normal({2, 5, 3})}},
      {"unfold: width 1", windows({.width = 1}), {normal({2, 5, 3})}},
      {"unfold: every second",
       windows({.width = 4, .stride = 2, .before = 3}),
       {normal({2, 7, 2})}},
      {"unfold: gaps", windows({.width = 2, .stride = 3}), {normal({1, 9, 1})}},
      {"unfold: zeros alone", windows({.width = 2, .before = 3, .after = 3}), {normal({1, 1, 2})}},
      {"unfold: longer than the sequence", windows({.width = 6}), {normal({2, 5, 3})}},
      {"unfold: no examples", windows({}), {normal({0, 5, 3})}},
      {"unfold: no steps", windows({.before = 2, .after = 2}), {normal({2, 0, 3})}},
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

std::vector<Row> loss_rows() {
  const auto against = [](const Array& targets, const CrossEntropyOptions& options) {
    return [=](In x) { return cross_entropy(x[0], targets, options); };
  };
  const Array logits = normal({4, 5}), targets = ints({3, 0, 4, 3}, {4});
  const Array some = ints({3, -1, 4, -1}, {4}), none = ints({-1, -1, -1, -1}, {4});
  const Array far = Array::of(std::vector{1e4, -1e4, 0., 1e4, -1e4, 0.}, {2, 3});
  const Array extremes = row({-100, -30, -1, 0, 1, 30, 100}),
              half = row({0, 1, 0.3, 0.5, 0.9, 0, 1});
  return {
      {"cross_entropy", against(targets, {}), {logits}},
      {"cross_entropy: sum", against(targets, {.mean = false}), {logits}},
      {"cross_entropy: ignored", against(some, {}), {logits}},
      {"cross_entropy: ignored, sum", against(some, {.mean = false}), {logits}},
      {"cross_entropy: ignore index 3", against(targets, {.ignore_index = 3}), {logits}},
      {"cross_entropy: all ignored", against(none, {}), {logits}},
      {"cross_entropy: all ignored, sum", against(none, {.mean = false}), {logits}},
      {"cross_entropy: smoothed", against(targets, {.label_smoothing = 0.1}), {logits}},
      {"cross_entropy: smoothed, ignored", against(some, {.label_smoothing = 0.1}), {logits}},
      {"cross_entropy: wholly smoothed, sum",
       against(targets, {.label_smoothing = 1, .mean = false}),
       {logits}},
      {"cross_entropy: (B, T, V)", against(ints({1, 0, 2, -1}, {2, 2}), {}), {normal({2, 2, 3})}},
      {"cross_entropy: wide", against(ints({36, 0}, {2}), {}), {normal({2, 37})}},
      {"cross_entropy: one class", against(ints({0, 0}, {2}), {}), {normal({2, 1})}},
      {"cross_entropy: no rows", against(ints({}, {0}), {}), {normal({0, 3})}},
      {"cross_entropy: ±1e4", against(ints({0, 1}, {2}), {}), {far}, large},
      {"binary_cross_entropy",
       [](In x) { return binary_cross_entropy(x[0], x[1]); },
       {normal({3, 5}), positive({3, 5})}},
      {"binary_cross_entropy: extremes",
       [](In x) { return binary_cross_entropy(x[0], x[1]); },
       {extremes, half}},
      {"binary_cross_entropy: empty",
       [](In x) { return binary_cross_entropy(x[0], x[1]); },
       {normal({0}), normal({0})}},
      {"squared_error",
       [](In x) { return squared_error(x[0], x[1]); },
       {normal({3, 5}), normal({3, 5})}},
      {"squared_error: scalar",
       [](In x) { return squared_error(x[0], x[1]); },
       {normal({}), normal({})}},
      {"squared_error: x with itself",
       [](In x) { return squared_error(x[0], x[0]); },
       {normal({3})}},
      {"gaussian_kl",
       [](In x) { return gaussian_kl(x[0], x[1]); },
       {normal({3, 5}), normal({3, 5})}},
      {"gaussian_kl: extremes",
       [](In x) { return gaussian_kl(x[0], x[1]); },
       {row({0, -10, 10, 0, 1}), row({-20, -5, 1, 0, 1e-6})}},
      {"gaussian_kl: one tensor twice",
       [](In x) { return gaussian_kl(x[0], x[0]); },
       {normal({3})}},
  };
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const auto& part :
         {unary_rows(), arithmetic_rows(), reduce_rows(), shaping_rows(), softmax_rows(),
          matmul_rows(), model_rows(), attention_rows(), rotary_rows(), scan_rows(),
          linear_attention_rows(), graph_rows(), convolution_rows(), loss_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

TEST_CASE("gradcheck: every row of the table has the gradient of its function") {
  for (const Row& row : table()) {
    CAPTURE(row.name);
    for (const GradcheckResult& result : gradcheck(row.f, row.inputs, row.options)) {
      CAPTURE(result.name);
      CHECK(result.passed);
      CHECK(result.error <= 1e-6);
    }
  }
}

TEST_CASE("gradcheck: every op of autograd/ops has a row in the table") {
  std::set<std::string> declared, tested;
  for (const auto& file :
       std::filesystem::directory_iterator(TAPESTRY_SOURCE_DIR "/autograd/ops")) {
    if (file.path().extension() != ".hpp") continue;
    std::ifstream header(file.path());
    for (std::string line, before; std::getline(header, line); before = line)
      if (line.starts_with("Tensor ") && !before.starts_with("template"))
        declared.insert(line.substr(7, line.find('(') - 7));
  }
  for (const Row& row : table()) tested.insert(row.op());
  CHECK(declared.contains("scaled_dot_product_attention"));
  CHECK(declared.size() >= 33);
  for (const std::string& name : declared) CHECK_MESSAGE(tested.contains(name), name);
  for (const std::string& name : tested) CHECK_MESSAGE(declared.contains(name), name);
}

// --- the checker itself ---

// y = x² for a matrix x with the gradient 2 x dy, which `spoil` may damage.
Function square(const std::function<void(std::span<double>)>& spoil) {
  return [spoil](In in) {
    const Array x = in[0].value();
    Array y(x.shape(), DType::float64);
    std::ranges::transform(x.values<double>(), y.mutable_values<double>().begin(),
                           [](double v) { return v * v; });
    return record("square", y, {in[0]}, [x, spoil](const Array& gradient, InputGradients& into) {
      Array dx(x.shape(), DType::float64);
      std::ranges::transform(x.values<double>(), gradient.values<double>(),
                             dx.mutable_values<double>().begin(),
                             [](double v, double g) { return 2 * v * g; });
      spoil(dx.mutable_values<double>());
      into.add(0, dx);
    });
  };
}

// f (f x), whose gradient by one of the two uses of x is lost.
Tensor forgetful_product(In in) {
  const Array x = in[0].value();
  return record("forgetful", multiply(Tensor(x), Tensor(x)).value(), {in[0]},
                [x](const Array& gradient, InputGradients& into) {
                  into.add(0, multiply(Tensor(gradient), Tensor(x)).value());
                });
}

// a · b for square matrices, with dA = dC B in place of dC Bᵀ.
Tensor untransposed_matmul(In in) {
  const Array a = in[0].value(), b = in[1].value();
  return record("untransposed", matmul(Tensor(a), Tensor(b)).value(), {in[0], in[1]},
                [a, b](const Array& gradient, InputGradients& into) {
                  into.add(0, matmul(Tensor(gradient), Tensor(b)).value());
                  into.add(1, matmul(Tensor(a), Tensor(gradient), {.transpose_a = true}).value());
                });
}

const GradcheckOptions only_projections{.jacobian_limit = 0};
const GradcheckOptions only_jacobian{.directions = 0};

TEST_CASE("gradcheck: planted errors are caught, by projections and by the Jacobian alone") {
  const Array x = apart({4, 4});
  const std::vector<Row> planted = {
      {"0.05 % too much",
       square([](auto dx) {
         for (double& g : dx) g *= 1.0005;
       }),
       {x}},
      {"0.05 % too little",
       square([](auto dx) {
         for (double& g : dx) g *= 0.9995;
       }),
       {x}},
      {"0.05 % in the first element", square([](auto dx) { dx[0] *= 1.0005; }), {x}},
      {"0.05 % in a middle element", square([](auto dx) { dx[7] *= 1.0005; }), {x}},
      {"wrong sign",
       square([](auto dx) {
         for (double& g : dx) g = -g;
       }),
       {x}},
      {"wrong sign of one element", square([](auto dx) { dx[3] = -dx[3]; }), {x}},
      {"no gradient",
       square([](auto dx) {
         for (double& g : dx) g = 0;
       }),
       {x}},
      {"two elements swapped", square([](auto dx) { std::swap(dx[1], dx[2]); }), {x}},
      {"NaN", square([](auto dx) { dx[5] = std::nan(""); }), {x}},
      {"infinity", square([](auto dx) { dx[5] = infinity; }), {x}},
      {"missing term", forgetful_product, {x}},
      {"not recorded", [](In in) { return multiply(in[0], in[0].value()); }, {x}},
      {"transposed", untransposed_matmul, {apart({3, 3}), apart({3, 3})}},
  };
  for (const Row& row : planted) {
    CAPTURE(row.name);
    CHECK_FALSE(gradcheck(row.f, row.inputs, only_projections)[0].passed);
    CHECK_FALSE(gradcheck(row.f, row.inputs, only_jacobian)[0].passed);
    CHECK(gradcheck(row.f, row.inputs)[0].error > 1e-6);
  }
  // The other input's gradient is right, and is not blamed.
  CHECK(gradcheck(untransposed_matmul, {apart({3, 3}), apart({3, 3})})[1].passed);
}

TEST_CASE("gradcheck: a 0.05 % error is caught in a gradient that is small, and in a long one") {
  const auto spoiled = square([](auto dx) {
    for (double& g : dx) g *= 1.0005;
  });
  const auto small = [&](In in) { return scale(spoiled(in), 1e-3); };
  CHECK_FALSE(gradcheck(small, {apart({4, 4})}, only_projections)[0].passed);
  CHECK_FALSE(gradcheck(small, {apart({4, 4})}, only_jacobian)[0].passed);
  const auto average = [&](In in) { return mean(spoiled(in)); };
  CHECK_FALSE(gradcheck(average, {normal({100, 100})})[0].passed);
  const auto one = square([](auto dx) { dx[17] *= 1.0005; });
  CHECK_FALSE(gradcheck(one, {apart({1000})}, only_projections)[0].passed);
}

TEST_CASE("gradcheck: right gradients pass, by projections and by the Jacobian alone") {
  const std::vector<Row> right = {
      {"square", square([](auto) {}), {apart({4, 4})}},
      {"small", [](In in) { return scale(in[0] * in[0], 1e-3); }, {apart({4, 4})}},
      {"zero", [](In in) { return scale(in[0], 0); }, {apart({4, 4})}},
      {"unused input", [](In in) { return in[0] * in[0]; }, {apart({4, 4}), apart({2})}},
      {"constant", [](In) { return Tensor(zeros({2})); }, {apart({4, 4})}},
      {"the input itself", [](In in) { return in[0]; }, {apart({4, 4})}},
  };
  for (const Row& row : right)
    for (const GradcheckOptions& options : {only_projections, only_jacobian, GradcheckOptions{}}) {
      CAPTURE(row.name);
      const auto results = gradcheck(row.f, row.inputs, options);
      CHECK(results.size() == row.inputs.size());
      for (const GradcheckResult& result : results) CHECK(result.passed);
    }
}

TEST_CASE("gradcheck: parameters are named, checked and put back exactly") {
  Parameter weight(apart({3, 4}), Role::weight), bias(apart({3}), Role::bias);
  weight.name = "layer.weight", bias.name = "layer.bias";
  const Array x = apart({2, 4}), before = weight.value().clone();
  const auto loss = [&] { return mean(square([](auto) {})({linear(x, weight, bias)})); };
  const auto results = gradcheck_parameters(loss, {&weight, &bias});
  REQUIRE(results.size() == 2);
  CHECK(results[0].name == "layer.weight");
  CHECK(results[1].name == "layer.bias");
  CHECK((results[0].passed && results[1].passed));
  CHECK(std::ranges::equal(before.values<double>(), weight.value().values<double>()));

  const auto fails = [&]() -> Tensor { throw std::runtime_error("broken"); };
  CHECK_THROWS_AS(gradcheck_parameters(fails, {&weight}), std::runtime_error);
  int calls = 0;
  const auto fails_later = [&] {
    if (++calls == 3) throw std::runtime_error("broken");
    return loss();
  };
  CHECK_THROWS_AS(gradcheck_parameters(fails_later, {&weight}), std::runtime_error);
  CHECK(std::ranges::equal(before.values<double>(), weight.value().values<double>()));

  const auto spoiled = [&] {
    return mean(square([](auto dx) { dx[0] *= 1.0005; })({linear(x, weight, bias)}));
  };
  CHECK_FALSE(gradcheck_parameters(spoiled, {&weight, &bias})[0].passed);
  Parameter fixed(apart({3}), Role::fixed);
  CHECK(gradcheck_parameters([&] { return sum(bias.tensor * fixed.tensor); }, {&bias, &fixed})
            .size() == 1);

  weight.convert(DType::float32);
  CHECK_THROWS_WITH_AS(gradcheck_parameters(loss, {&weight}),
                       "gradcheck: layer.weight (3, 4) is float32, not float64",
                       std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
