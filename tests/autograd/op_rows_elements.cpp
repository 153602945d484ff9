#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "tests/support/op_table.hpp"

// Rows of the table of ops: element by element, sums and shapes, losses.
namespace tapestry {
namespace {

Array positive(const Shape& shape) {
  Array array = apart(shape);
  for (double& x : array.mutable_values<double>()) x = std::abs(x);
  return array;
}

template <class... Extents>
Function reshaped(Extents... shape) {
  return [=](In v) { return reshape(v[0], std::vector<std::int64_t>{shape...}); };
}
template <class... Axes>
Function permuted(Axes... axes) {
  return [=](In v) { return permute(v[0], std::vector<int>{axes...}); };
}
Function joined(int axis) {
  return [=](In v) { return concat(v, axis); };
}
Function stacked(int axis) {
  return [=](In v) { return stack(v, axis); };
}

}  // namespace

std::vector<OpRow> unary_ops() {
  const std::vector<Array> x = {apart({3, 7})}, empty = {normal({0, 3})}, scalar = {apart({})};
  const std::vector<Array> wide = {row({-100, -30, -5, -1e-3, 0, 1e-3, 5, 30, 100})};
  const std::vector<Array> above = {row({0.1, 0.5, 1, 40, 1e4})};
  std::vector<OpRow> rows = {
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
           return tanh(dropout(t, 0.4, *noise) * v[1]);  // v[1] is within the range
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
      {"sin", sin}, {"cos", cos},   {"tanh", tanh},           {"sigmoid", sigmoid}, {"relu", relu},
      {"elu", elu}, {"gelu", gelu}, {"gelu_tanh", gelu_tanh}, {"silu", silu}};
  for (const auto& [name, op] : smooth) {
    const Function f = [op = op](In v) { return op(v[0]); };
    rows.push_back({name, f, x});
    rows.push_back({fmt::format("{}: scalar", name), f, scalar});
    rows.push_back({fmt::format("{}: empty", name), f, empty});
    if (std::string(name) != "relu") rows.push_back({fmt::format("{}: ±100", name), f, wide});
  }
  rows.push_back({"exp", [](In v) { return exp(v[0]); }, x});
  rows.push_back({"leaky_relu", [](In v) { return leaky_relu(v[0]); }, x});
  rows.push_back({"leaky_relu: scalar", [](In v) { return leaky_relu(v[0], 0.2); }, scalar});
  rows.push_back({"leaky_relu: empty", [](In v) { return leaky_relu(v[0], 0.2); }, empty});
  rows.push_back({"leaky_relu: slope 0", [](In v) { return leaky_relu(v[0], 0); }, x});
  rows.push_back({"leaky_relu: slope 1.5", [](In v) { return leaky_relu(v[0], 1.5); }, x});
  return rows;
}

std::vector<OpRow> arithmetic_ops() {
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
  std::vector<OpRow> rows;
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
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 2}}) {
    rows.push_back({"add: numbers", [](In x) { return 2 + (x[0] + 0.5); }, {apart(shape)}});
    rows.push_back({"subtract: numbers", [](In x) { return 2 - (x[0] - 0.5); }, {apart(shape)}});
    rows.push_back({"multiply: numbers", [](In x) { return x[0] * (2 * x[0]); }, {apart(shape)}});
    rows.push_back({"divide: numbers", [](In x) { return 2.0 / (x[0] / 3); }, {apart(shape)}});
  }
  return rows;
}

std::vector<OpRow> reduce_ops() {
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
  std::vector<OpRow> rows;
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

std::vector<OpRow> shaping_ops() {
  const Array x = normal({2, 3, 4});
  return {
      {"reshape", reshaped(4, 6), {x}},
      {"reshape: inferred", reshaped(2, -1), {x}},
      {"reshape: flat", reshaped(-1), {x}},
      {"reshape: ones", reshaped(1, 2, 1, 12), {x}},
      {"reshape: to a scalar", reshaped(), {normal({1, 1})}},
      {"reshape: empty", reshaped(3, 0, 2), {normal({0, 4})}},
      {"reshape: then used twice", [](In v) { return reshape(v[0], {3}) * v[0]; }, {normal({3})}},
      {"permute: matrix", permuted(1, 0), {normal({3, 5})}},
      {"permute: 0 1 2", permuted(0, 1, 2), {x}},
      {"permute: 0 2 1", permuted(0, 2, 1), {x}},
      {"permute: 1 0 2", permuted(1, 0, 2), {x}},
      {"permute: 2 0 1", permuted(2, 0, 1), {x}},
      {"permute: 1 2 0", permuted(1, 2, 0), {x}},
      {"permute: -1 -2 -3", permuted(-1, -2, -3), {x}},
      {"permute: heads", permuted(0, 2, 1, 3), {normal({2, 3, 2, 3})}},
      {"permute: scalar", permuted(), {normal({})}},
      {"permute: empty", permuted(1, 0), {normal({3, 0})}},
      {"slice: first axis", [](In v) { return slice(v[0], 0, 1, 2); }, {x}},
      {"slice: middle axis", [](In v) { return slice(v[0], 1, 0, 2); }, {x}},
      {"slice: last axis", [](In v) { return slice(v[0], -1, 1, 4); }, {x}},
      {"slice: whole", [](In v) { return slice(v[0], 1, 0, 3); }, {x}},
      {"slice: nothing", [](In v) { return slice(v[0], 1, 2, 2); }, {x}},
      {"slice: overlapping",
       [](In v) { return slice(v[0], 0, 0, 3) * slice(v[0], 0, 2, 5); },
       {normal({5, 2})}},
      {"split: used in another order",
       [](In v) {
         const auto parts = split(v[0], {2, 0, 1, 2}, 1);
         return concat({parts[3] * parts[0], parts[1], parts[2]}, 1);
       },
       {normal({2, 5, 2})}},
      {"split: in one", [](In v) { return split(v[0], {3}, -1)[0]; }, {normal({2, 3})}},
      {"chunk: unequal", [](In v) { return concat(chunk(v[0], 3, 0), 0); }, {normal({5, 2})}},
      {"chunk: one used", [](In v) { return chunk(v[0], 2, 1)[1]; }, {normal({2, 4})}},
      {"chunk: empty", [](In v) { return chunk(v[0], 2, 0)[0]; }, {normal({0, 3})}},
      {"concat: first axis", joined(0), {normal({2, 3}), normal({4, 3})}},
      {"concat: last axis", joined(-1), {normal({2, 3}), normal({2, 1}), normal({2, 2})}},
      {"concat: middle axis", joined(1), {normal({2, 3, 2}), normal({2, 1, 2})}},
      {"concat: one", [](In v) { return concat({v[0]}, 0); }, {normal({2, 3})}},
      {"concat: with nothing", joined(1), {normal({2, 3}), normal({2, 0})}},
      {"concat: x with itself",
       [](In v) {
         return concat({v[0], v[0]}, 0) * 2.0;
       },
       {normal({2, 3})}},
      {"stack: first axis", stacked(0), {normal({2, 3}), normal({2, 3}), normal({2, 3})}},
      {"stack: middle axis", stacked(1), {normal({2, 3}), normal({2, 3})}},
      {"stack: last axis", stacked(-1), {normal({2, 3}), normal({2, 3})}},
      {"stack: scalars", stacked(0), {normal({}), normal({})}},
      {"stack: one", stacked(1), {normal({3})}},
      {"stack: empty", stacked(0), {normal({0, 3}), normal({0, 3})}},
      {"stack: x with itself",
       [](In v) {
         return stack({v[0], v[0]}, 1) * 2.0;
       },
       {normal({2, 3})}},
  };
}

std::vector<OpRow> indexing_ops() {
  const auto gathered = [](int axis, const Array& index) {
    return [=](In v) { return gather(v[0], axis, index); };
  };
  const auto scattered = [](int axis, const Array& index) {
    return [=](In v) { return scatter_add(v[0], axis, index, v[1]); };
  };
  const auto chosen = [](const Array& condition) {
    return [=](In v) { return where(condition, v[0], v[1]); };
  };
  const Array x = normal({2, 3, 4}), line = ints({2, 0, 2, 2}, {4}), none = ints({}, {0});
  const Array last = ints({3, 0, 0, 1, 1, 1}, {2, 3, 1}),
              first = ints({1, 0, 1, 1, 0, 0}, {3, 2, 1});
  const Array some = ints({1, 0, 0, 0, 2, -1}, {2, 3});
  return {
      {"gather: last axis", gathered(-1, last), {x}},
      {"gather: middle axis", gathered(1, ints({2, 2, 0, 1, 1, 1, 0, 2}, {2, 1, 4})), {x}},
      {"gather: first axis, shorter others", gathered(0, first), {normal({2, 3, 4})}},
      {"gather: more than the axis has", gathered(0, ints({1, 1, 0, 1, 1}, {5})), {normal({2})}},
      {"gather: slices of the first axis", gathered(0, ints({1, 1, 0}, {3})), {x}},
      {"gather: slices of the middle axis", gathered(1, line), {x}},
      {"gather: slices of the last axis", gathered(2, line), {x}},
      {"gather: no slices", gathered(1, none), {x}},
      {"gather: slices without elements", gathered(0, ints({1, 0}, {2})), {normal({2, 0})}},
      {"gather: nothing of nothing", gathered(0, none), {normal({0, 3})}},
      {"scatter_add: last axis", scattered(-1, last), {x, normal({2, 3, 1})}},
      {"scatter_add: first axis, shorter others", scattered(0, first), {x, normal({3, 2, 1})}},
      {"scatter_add: slices of the first axis",
       scattered(0, ints({1, 1, 0}, {3})),
       {x, normal({3, 3, 4})}},
      {"scatter_add: slices of the middle axis", scattered(1, line), {x, normal({2, 4, 4})}},
      {"scatter_add: slices of the last axis", scattered(2, line), {x, normal({2, 3, 4})}},
      {"scatter_add: no slices", scattered(1, none), {x, normal({2, 0, 4})}},
      {"scatter_add: more rows than are added one by one",
       scattered(0, random_tokens({1100}, 2)),
       {normal({2, 1}), normal({1100, 1})}},
      {"scatter_add: slices without elements",
       scattered(0, ints({1, 0}, {2})),
       {normal({2, 0}), normal({2, 0})}},
      {"scatter_add: x with itself",
       [](In v) {
         return scatter_add(v[0], 0, ints({1, 1}, {2}), v[0]);
       },
       {normal({2, 3})}},
      {"where", chosen(some), {normal({2, 3}), normal({2, 3})}},
      {"where: condition is broadcast", chosen(ints({1, 0, 0}, {3, 1})), {x, normal({2, 3, 4})}},
      {"where: all are broadcast",
       chosen(ints({1, 0, 1}, {3, 1})),
       {normal({2, 1, 4}), normal({})}},
      {"where: a condition of more axes", chosen(some), {normal({}), normal({3})}},
      {"where: empty", chosen(ints({}, {0, 3})), {normal({0, 3}), normal({3})}},
      {"where: x or itself", [=](In v) { return where(some, v[0], v[0]); }, {normal({2, 3})}},
  };
}

std::vector<OpRow> loss_ops() {
  const auto against = [](const Array& targets, const CrossEntropyOptions& options) {
    return [=](In x) { return cross_entropy(x[0], targets, options); };
  };
  const Function binary = [](In x) { return binary_cross_entropy(x[0], x[1]); };
  const Function squared = [](In x) { return squared_error(x[0], x[1]); };
  const Function kl = [](In x) { return gaussian_kl(x[0], x[1]); };
  const auto words = [](const Array& contexts, const Array& predicted) {
    return [=](In x) { return negative_sampling(x[0], x[1], contexts, predicted); };
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
      {"binary_cross_entropy", binary, {normal({3, 5}), positive({3, 5})}},
      {"binary_cross_entropy: extremes", binary, {extremes, half}},
      {"binary_cross_entropy: empty", binary, {normal({0}), normal({0})}},
      {"negative_sampling",
       words(ints({1, 4, 1, 0, 2, -1}, {3, 2}), ints({0, 3, 3, 1, -1, 0, -1, 1, 2}, {3, 3})),
       {normal({5, 6}), normal({5, 6})}},
      {"negative_sampling: wide, one negative word",
       words(ints({1, 2}, {2, 1}), ints({0, 1, 2, 1}, {2, 2})),
       {normal({3, 37}), normal({3, 37})}},
      {"negative_sampling: one table",
       [=](In x) {
         return negative_sampling(x[0], x[0], ints({1, 2}, {1, 2}), ints({0, 1}, {1, 2}));
       },
       {normal({3, 5})}},
      {"negative_sampling: no rows",
       words(ints({}, {0, 2}), ints({}, {0, 2})),
       {normal({3, 2}), normal({3, 2})}},
      {"squared_error", squared, {normal({3, 5}), normal({3, 5})}},
      {"squared_error: scalar", squared, {normal({}), normal({})}},
      {"squared_error: x with itself",
       [](In x) { return squared_error(x[0], x[0]); },
       {normal({3})}},
      {"gaussian_kl", kl, {normal({3, 5}), normal({3, 5})}},
      {"gaussian_kl: extremes", kl, {row({0, -10, 10, 0, 1}), row({-20, -5, 1, 0, 1e-6})}},
      {"gaussian_kl: one tensor twice",
       [](In x) { return gaussian_kl(x[0], x[0]); },
       {normal({3})}},
  };
}

}  // namespace tapestry
