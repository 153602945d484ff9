#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <bit>
#include <numeric>

#include "autograd/buffer_pool.hpp"
#include "autograd/ops.hpp"
#include "tests/support/exact_terms.hpp"
#include "tests/support/graphs.hpp"

// Sums of products of small integers are exact in any order. So kernels must give the values and
// gradients of plain loops without a tolerance.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("integers");

// Returns the numbers 0, 1, … in random order.
Array shuffled(const Shape& shape) {
  std::vector<double> values(shape.elements());
  std::iota(values.begin(), values.end(), 0.0);
  Random(5, Stream::data).shuffle(values);
  return Array::of(values, shape);
}

// --- products ---

Polynomial matmul_row(const Shape& a, const Shape& b, MatmulOptions options) {
  Shape stored_a = a, stored_b = b;
  if (options.transpose_a) std::swap(stored_a[-1], stored_a[-2]);
  if (options.transpose_b) std::swap(stored_b[-1], stored_b[-2]);
  return {fmt::format("matmul {} {}", stored_a, stored_b),
          [=](In x) { return matmul(x[0], x[1], options); },
          {integers(stored_a, 1), integers(stored_b, 2)},
          [=](const AddTerm& add) {
            const std::int64_t m = a[-2], k = a[-1], n = b[-1];
            const Shape batch_a(a.begin(), a.end() - 2), batch_b(b.begin(), b.end() - 2),
                batch = broadcast("test", batch_a, batch_b);
            for (std::int64_t i = 0; i < batch.elements() * m * k * n; ++i) {
              const std::int64_t p = i % k, column = i / k % n, row = i / (k * n) % m,
                                 product = i / (k * n * m);
              const std::int64_t in_a = stretched_place(batch_a, batch, product) * m * k,
                                 in_b = stretched_place(batch_b, batch, product) * k * n;
              add((product * m + row) * n + column, 1,
                  {{0, in_a + (options.transpose_a ? p * m + row : row * k + p)},
                   {1, in_b + (options.transpose_b ? column * k + p : p * n + column)}});
            }
          }};
}

TEST_CASE("integers: products of arrays and their gradients are exact") {
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{17, 33}, {33, 19}},
                                                                 {{2, 15, 9}, {2, 9, 40}},
                                                                 {{3, 20, 4}, {4, 5}},
                                                                 {{3, 4}, {5, 4, 33}},
                                                                 {{2, 1, 3, 18}, {1, 3, 18, 2}},
                                                                 {{2, 3, 1, 40}, {3, 40, 1}},
                                                                 {{40, 2, 50}, {40, 50, 33}},
                                                                 {{0, 4}, {4, 5}},
                                                                 {{3, 0}, {0, 5}},
                                                                 {{0, 3, 4}, {1, 4, 5}}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        check_exact(matmul_row(a, b, {transpose_a, transpose_b}));
  for (const std::int64_t rows : {1, 3, 16, 17, 150})
    check_exact({fmt::format("linear of {} rows", rows),
                 [](In x) { return linear(x[0], x[1], x[2]); },
                 {integers({rows, 37}, 1), integers({35, 37}, 2), integers({35}, 3)},
                 [=](const AddTerm& add) {
                   for (std::int64_t o = 0; o < rows * 35; ++o) {
                     add(o, 1, {{2, o % 35}});
                     for (std::int64_t p = 0; p < 37; ++p)
                       add(o, 1, {{0, o / 35 * 37 + p}, {1, o % 35 * 37 + p}});
                   }
                 }});
  check_exact(
      {"add_low_rank",
       [](In x) {
         return add_low_rank(x[0], x[1], {{x[2], x[3], 2}}, 0.5);
       },
       {integers({9, 20}, 1), integers({9, 30}, 2), integers({3, 30}, 3), integers({17, 3}, 4)},
       [](const AddTerm& add) {
         for (std::int64_t o = 0; o < 9 * 20; ++o) add(o, 1, {{0, o}});
         for (std::int64_t i = 0; i < 9 * 17 * 30 * 3; ++i) {
           const std::int64_t r = i % 3, p = i / 3 % 30, column = i / 90 % 17, row = i / 1530;
           add(row * 20 + 2 + column, 0.5,
               {{1, row * 30 + p}, {2, r * 30 + p}, {3, column * 3 + r}});
         }
       }});
}

// --- element by element, sums and shapes ---

TEST_CASE("integers: arithmetic of broadcast arrays is exact") {
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{7, 37}, {7, 37}},
                                                                 {{7, 37}, {37}},
                                                                 {{7, 1}, {7, 37}},
                                                                 {{}, {300, 70}},
                                                                 {{4, 1, 6}, {3, 1}},
                                                                 {{2, 1, 3, 1}, {4, 1, 50}},
                                                                 {{2, 300, 130}, {300, 130}},
                                                                 {{90, 1, 200}, {3, 1}},
                                                                 {{1, 1}, {1}},
                                                                 {{3, 0}, {3, 1}}}) {
    const Shape shape = broadcast("test", a, b);
    const auto of = [&, a = a, b = b](const char* name, auto op, const auto& terms) {
      check_exact({fmt::format("{} {} {}", name, a, b),
                   [op](In x) { return op(x[0], x[1]); },
                   {integers(a, 1), integers(b, 2)},
                   [=](const AddTerm& add) {
                     for (std::int64_t i = 0; i < shape.elements(); ++i)
                       terms(add, i, Factor{0, stretched_place(a, shape, i)},
                             Factor{1, stretched_place(b, shape, i)});
                   }});
    };
    of("add", add, [](const AddTerm& term, std::int64_t i, Factor x, Factor y) {
      term(i, 1, {x});
      term(i, 1, {y});
    });
    of("subtract", subtract, [](const AddTerm& term, std::int64_t i, Factor x, Factor y) {
      term(i, 1, {x});
      term(i, -1, {y});
    });
    of("multiply", multiply, [](const AddTerm& term, std::int64_t i, Factor x, Factor y) {
      term(i, 1, {x, y});
    });
    if (a == b)
      of("squared_error", squared_error,
         [](const AddTerm& term, std::int64_t i, Factor x, Factor y) {
           term(i, 1, {x, x});
           term(i, -2, {x, y});
           term(i, 1, {y, y});
         });
  }
}

TEST_CASE("integers: sums, means and maxima over any axes are exact") {
  for (const Shape& shape :
       {Shape{3, 4, 5}, Shape{2, 513, 3}, Shape{4, 128, 64}, Shape{9000, 2}, Shape{5, 129, 64},
        Shape{2, 3, 0, 5}, Shape{40'000}, Shape{16'385}, Shape{33, 65}})
    for (int chosen = 1; chosen < 1 << shape.rank(); ++chosen) {
      std::vector<int> axes;
      Shape kept = shape;
      double count = 1;
      for (int axis = 0; axis < shape.rank(); ++axis)
        if (chosen >> axis & 1) {
          axes.push_back(axis);
          kept[axis] = 1;
          count *= static_cast<double>(shape[axis]);
        }
      const auto name = [&](const char* op) { return fmt::format("{} {} {}", op, shape, axes); };
      const auto sum_of = [=](double coefficient) {
        return [=](const AddTerm& add) {
          for (std::int64_t i = 0; i < shape.elements(); ++i)
            add(stretched_place(kept, shape, i), coefficient, {{0, i}});
        };
      };
      check_exact(
          {name("sum"), [=](In x) { return sum(x[0], axes); }, {integers(shape, 1)}, sum_of(1)});
      if (std::has_single_bit(static_cast<std::uint64_t>(count)))
        check_exact({name("mean"),
                     [=](In x) { return mean(x[0], axes, Keep::yes); },
                     {integers(shape, 1)},
                     sum_of(1 / count)});
      if (shape.elements() == 0) continue;
      const Array x = shuffled(shape);
      check_exact({name("max"),
                   [=](In in) { return max(in[0], axes); },
                   {x},
                   [=](const AddTerm& add) {
                     std::vector<std::int64_t> largest(kept.elements(), -1);
                     const auto values = x.values<double>();
                     for (std::int64_t i = 0; i < shape.elements(); ++i) {
                       std::int64_t& best = largest[stretched_place(kept, shape, i)];
                       if (best < 0 || values[i] > values[best]) best = i;
                     }
                     for (std::size_t o = 0; o < largest.size(); ++o)
                       add(static_cast<std::int64_t>(o), 1, {{0, largest[o]}});
                   }});
    }
}

TEST_CASE("integers: ops that move elements are exact, and add the gradients of all copies") {
  const Shape shape{5, 66, 3, 18};
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{
           {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {0, 1, 3, 2}})
    check_exact({fmt::format("permute {}", axes),
                 [=](In x) { return permute(x[0], axes); },
                 {integers(shape, 1)},
                 [=](const AddTerm& add) {
                   Shape to;
                   for (const int axis : axes) to.push_back(shape[axis]);
                   for (std::int64_t i = 0; i < shape.elements(); ++i) {
                     std::int64_t index[4], rest = i, output = 0;
                     for (int axis = 3; axis >= 0; rest /= shape[axis--])
                       index[axis] = rest % shape[axis];
                     for (int axis = 0; axis < 4; ++axis)
                       output = output * to[axis] + index[axes[axis]];
                     add(output, 1, {{0, i}});
                   }
                 }});
  for (int axis = 0; axis < 4; ++axis) {
    std::int64_t inner = 1;
    for (int a = axis + 1; a < 4; ++a) inner *= shape[a];
    const std::int64_t n = shape[axis], middle = n / 2, length = 2 * n - middle;
    check_exact({fmt::format("slice and concat {}", axis),
                 [=](In x) {
                   return concat({slice(x[0], axis, middle, n), x[1]}, axis);
                 },
                 {integers(shape, 1), integers(shape, 2)},
                 [=](const AddTerm& add) {
                   for (std::int64_t i = 0; i < shape.elements(); ++i) {
                     const std::int64_t at = i / inner % n;
                     const std::int64_t row = i / (inner * n) * length, column = i % inner;
                     add((row + n - middle + at) * inner + column, 1, {{1, i}});
                     if (at >= middle) add((row + at - middle) * inner + column, 1, {{0, i}});
                   }
                 }});
  }
  for (const auto& [T, width, stride] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{9, 3, 1}, {70, 4, 2}, {9, 2, 3}})
    check_exact(
        {"unfold",
         [width = width, stride = stride](In x) {
           return unfold(x[0], {.width = width, .stride = stride});
         },
         {integers({3, T, 5}, 1)},
         [T = T, width = width, stride = stride](const AddTerm& add) {
           const std::int64_t windows = (T - width) / stride + 1, row = width * 5;
           for (std::int64_t o = 0; o < 3 * windows * row; ++o)
             add(o, 1, {{0, (o / (windows * row) * T + o / row % windows * stride) * 5 + o % row}});
         }});
  const Array tokens = random_tokens({3, 700}, 11);
  for (const std::int64_t width : {1, 5, 70})
    check_exact({"embedding",
                 [=](In x) { return embedding(x[0], tokens); },
                 {integers({11, width}, 1)},
                 [=](const AddTerm& add) {
                   for (std::int64_t o = 0; o < 2100 * width; ++o)
                     add(o, 1, {{0, tokens.values<std::int32_t>()[o / width] * width + o % width}});
                 }});
}

// --- graphs and segments ---

TEST_CASE("integers: sums along edges and over segments and their gradients are exact") {
  for (const auto& [graph, F, H] :
       {std::tuple<Adjacency, std::int64_t, std::int64_t>{random_graph(40, 160, 1), 6, 3},
        {random_graph(300, 3000, 2), 70, 2},
        {random_graph(30, 20, 3), 1, 1},
        {Adjacency(4, 3, {{3, 0}, {0, 2}, {1, 2}, {3, 2}}), 8, 1}}) {
    const std::int64_t N = graph.nodes(), M = graph.sources();
    const Edges edges = graph.list();
    const auto each = [edges = edges, F = F, H = H](const auto& call) {
      for (std::int64_t e = 0; e < std::ssize(edges); ++e)
        for (std::int64_t f = 0; f < F; ++f)
          call(edges[e].to * F + f, edges[e].from * F + f, e * H + f / (F / H));
    };
    check_exact(
        {"neighbor_sum",
         [graph = graph](In x) { return neighbor_sum(graph, x[0], x[1]); },
         {integers({M, F}, 1), integers({graph.edges(), H}, 2)},
         [=](const AddTerm& add) {
           each([&](auto to, auto from, auto weight) { add(to, 1, {{0, from}, {1, weight}}); });
         }});
    if (N != M) continue;
    check_exact(
        {"edge_products",
         [graph = graph, H = H](In x) { return edge_products(graph, x[0], x[1], H); },
         {integers({N, F}, 1), integers({N, F}, 2)},
         [=](const AddTerm& add) {
           each([&](auto to, auto from, auto product) { add(product, 1, {{0, to}, {1, from}}); });
         }});
  }
  const Ints ends{0, 4, 4, 5, 13, 13, 525, 1037};  // lengths are powers of 2, for exact means
  const Array offsets = ints(ends, {std::ssize(ends)});
  for (const std::int64_t F : {1, 5, 37, 70}) {
    const Array x = shuffled({1037, F});
    const auto each = [=](const auto& call) {
      for (std::int64_t s = 0; s + 1 < std::ssize(ends); ++s)
        for (std::int64_t f = 0; f < F; ++f) call(s * F + f, ends[s], ends[s + 1], f);
    };
    const auto sum_of = [=](bool mean) {
      return [=](const AddTerm& add) {
        each([&](auto to, auto begin, auto end, auto f) {
          for (std::int64_t row = begin; row < end; ++row)
            add(to, mean ? 1.0 / (end - begin) : 1, {{0, row * F + f}});
        });
      };
    };
    check_exact({"segment_sum",
                 [=](In in) { return segment_sum(in[0], offsets); },
                 {integers({1037, F}, 1)},
                 sum_of(false)});
    check_exact({"segment_mean",
                 [=](In in) { return segment_mean(in[0], offsets); },
                 {integers({1037, F}, 1)},
                 sum_of(true)});
    check_exact({"segment_max",
                 [=](In in) { return segment_max(in[0], offsets); },
                 {x},
                 [=](const AddTerm& add) {
                   each([&](auto to, std::int64_t begin, auto end, auto f) {
                     if (begin == end) return;
                     const auto of = [&](auto row) { return x.values<double>()[row * F + f]; };
                     std::int64_t best = begin;
                     for (std::int64_t row = begin; row < end; ++row)
                       if (of(row) > of(best)) best = row;
                     add(to, 1, {{0, best * F + f}});
                   });
                 }});
  }
}

// --- attention ---

// Returns how many keys a query attends to. Weights are exact for a power of 2; the results of
// other queries are multiplied by 0.
struct Sight {
  std::int64_t T, S;
  bool causal = false;
  std::int64_t window = 0;

  std::vector<std::int64_t> keys_of(std::int64_t t) const {
    std::vector<std::int64_t> keys;
    const std::int64_t own = t + S - T;
    for (std::int64_t s = 0; s < S; ++s)
      if ((!causal || s <= own) && (window == 0 || std::abs(s - own) < window)) keys.push_back(s);
    return std::has_single_bit(keys.size()) ? keys : std::vector<std::int64_t>{};
  }
  // (T, 1): 1 for the queries that are compared.
  Array compared() const {
    Array kept = Array::zeros({T, 1}, f64);
    for (std::int64_t t = 0; t < T; ++t) kept.mutable_values<double>()[t] = !keys_of(t).empty();
    return kept;
  }
};

TEST_CASE("integers: attention with equal scores is an exact mean of the values") {
  const std::int64_t D = 4, G = 2, H = 4;  // √D is a power of 2
  for (const Sight& sight : {Sight{3, 16},
                             {1, 64},
                             {70, 128},
                             {130, 130, true},
                             {66, 140, true},
                             {200, 200, true, 64},
                             {70, 256, false, 32},
                             {5, 256}}) {
    const auto [T, S] = std::pair(sight.T, sight.S);
    const bool small = T * S < 100;  // the gradient of q has S² terms
    const Array kept = sight.compared();
    const Array zeros = Array::zeros({2, T, H * D}, f64), k = integers({2, S, G * D}, 1);
    const auto attend = [=](const Tensor& q, const Tensor& keys, const Tensor& v) {
      return scaled_dot_product_attention(q, keys, v,
                                          {.heads = H,
                                           .key_value_heads = G,
                                           .causal = sight.causal,
                                           .window = sight.window}) *
             kept.to(v.dtype());
    };
    std::vector<Array> inputs = {integers({2, S, G * D}, 2)};
    if (small) inputs.insert(inputs.end(), {zeros, k});
    check_exact({fmt::format("attention, {} by {}", T, S),
                 [=](In x) {
                   return small ? attend(x[1], x[2], x[0])
                                : attend(zeros.to(x[0].dtype()), k.to(x[0].dtype()), x[0]);
                 },
                 inputs,
                 [=, T = T, S = S](const AddTerm& add) {
                   for (std::int64_t o = 0; o < 2 * T * H * D; ++o) {
                     const std::int64_t t = o / (H * D) % T, b = o / (H * D * T), h = o / D % H;
                     const std::vector<std::int64_t> keys = sight.keys_of(t);
                     const double weight =
                         keys.empty() ? 0 : 1.0 / static_cast<double>(keys.size());
                     const auto in_keys = [&](std::int64_t s, std::int64_t d) {
                       return ((b * S + s) * G + h / (H / G)) * D + d;
                     };
                     for (const std::int64_t s : keys) {
                       add(o, weight, {{0, in_keys(s, o % D)}});
                       for (std::int64_t d = 0; small && d < D; ++d) {  // to first order in q = 0
                         const Factor query{1, o / D * D + d}, key{2, in_keys(s, d)};
                         add(o, weight / 2, {query, key, {0, in_keys(s, o % D)}});
                         for (const std::int64_t r : keys)
                           add(o, -weight * weight / 2, {query, key, {0, in_keys(r, o % D)}});
                       }
                     }
                   }
                 }});
  }
}

TEST_CASE("integers: linear attention below its floor is an exact sum of products") {
  const std::int64_t F = 3, D = 5, H = 2;
  const double floor = 1 << 12;  // above every sum of q · k, so that the denominator is constant
  for (const Sight& sight : {Sight{3, 16}, {70, 128}, {5, 5, true}, {150, 150, true}}) {
    const auto [T, S] = std::pair(sight.T, sight.S);
    const Array kept = sight.compared();
    check_exact({fmt::format("linear_attention, {} by {}", T, S),
                 [=](In x) {
                   return linear_attention(x[0], x[1], x[2], {},
                                           {.causal = sight.causal, .floor = floor}) *
                          kept.to(x[0].dtype());
                 },
                 {integers({2, H, F, T}, 1), integers({2, H, F, S}, 2), integers({2, S, H * D}, 3)},
                 [=, T = T, S = S](const AddTerm& add) {
                   for (std::int64_t o = 0; o < 2 * T * H * D; ++o) {
                     const std::int64_t h = o / D % H, t = o / (H * D) % T, b = o / (H * D * T);
                     const std::vector<std::int64_t> keys = sight.keys_of(t);
                     for (const std::int64_t s : keys)
                       for (std::int64_t f = 0; f < F; ++f)
                         add(o, 1 / (floor * static_cast<double>(keys.size())),
                             {{0, ((b * H + h) * F + f) * T + t},
                              {1, ((b * H + h) * F + f) * S + s},
                              {2, (b * S + s) * H * D + o % (H * D)}});
                   }
                 }});
  }
}

// --- more than 2³¹ elements ---

TEST_CASE("integers: a product, a sum and a copy of more than 2^31 elements are exact" *
          doctest::skip(true) * doctest::description("18 GB and half a minute")) {
  constexpr std::int64_t m = 65'539, n = 32'768, size = m * n;
  static_assert(size > std::int64_t{1} << 31);
  const MachineMemory machine = machine_memory();
  if (machine.memory < 20e9) {
    MESSAGE("left out: this machine has less than 20 GB");
    return;
  }
  // Every residue of 251 is equally frequent in a lane of any width, so that no sum is large.
  const auto element = [](std::int64_t i) { return static_cast<float>(i % 251 - 125); };
  Array x({m, n});
  for (std::int64_t i = 0; float& value : x.mutable_values<float>()) value = element(i++);
  std::vector<double> sums(m), products(m);
  for (std::int64_t i = 0; i < size; ++i) {
    sums[i / n] += element(i);
    products[i / n] += element(i) * static_cast<double>(i % n % 3);
  }
  CHECK(doubles(sum(x, {1}).value()) == sums);
  CHECK(sum(x).item() == std::accumulate(sums.begin(), sums.end(), 0.0));
  Array weight({1, n});
  for (std::int64_t i = 0; i < n; ++i)
    weight.mutable_values<float>()[i] = static_cast<float>(i % 3);
  CHECK(doubles(linear(x, weight).value()) == products);
  CHECK(doubles(matmul(x, weight.reshaped({n, 1})).value()) == products);
  const Array last = slice(x, 0, m - 1, m).value();
  CHECK(std::equal(last.raw(), last.raw() + last.bytes(), x.raw() + (size - n) * 4));
  CHECK(same_bits(x.clone(), x));
}

// Tests convolutions and pooling of small integers as test_integers.cpp does.

struct Convolution {
  Shape images, weight;  // (B, C, H, W), (O, C, K, K)
  ConvolutionOptions options;
};

// Calls add(y, x, weight) with the indices of each product of the definition.
void for_each_product(const Convolution& shape, const Shape& y, const auto& add) {
  const auto [C, H, W] = std::tuple(shape.images[1], shape.images[2], shape.images[3]);
  const std::int64_t O = y[1], K = shape.weight[2];
  for (std::int64_t at = 0; at < y.elements(); ++at) {
    const std::int64_t j = at % y[3], i = at / y[3] % y[2], o = at / (y[2] * y[3]) % O,
                       b = at / (y[2] * y[3] * O);
    for (std::int64_t c = 0; c < C; ++c)
      for (std::int64_t p = 0; p < K; ++p)
        for (std::int64_t q = 0; q < K; ++q) {
          const std::int64_t row = i * shape.options.stride + p - shape.options.padding;
          const std::int64_t column = j * shape.options.stride + q - shape.options.padding;
          if (row >= 0 && row < H && column >= 0 && column < W)
            add(at, ((b * C + c) * H + row) * W + column, ((o * C + c) * K + p) * K + q);
        }
  }
}

TEST_CASE("integers: convolutions, their transposes and their gradients are exact") {
  std::vector<Convolution> rows = {// images in blocks, an image in blocks of rows, and both
                                   {{45, 3, 28, 28}, {8, 3, 3, 3}, {.stride = 2, .padding = 1}},
                                   {{2, 4, 70, 61}, {3, 4, 5, 5}, {.padding = 2}},
                                   {{1, 6, 131, 64}, {3, 6, 4, 4}, {.stride = 3, .padding = 1}},
                                   {{0, 2, 5, 5}, {3, 2, 3, 3}, {}}};
  for (const std::int64_t K : {1, 2, 3, 5})
    for (const std::int64_t stride : {1, 2, 3, 6})
      for (const std::int64_t padding : {0, 1, 4})
        rows.push_back({{2, 3, 9, 6}, {5, 3, K, K}, {.stride = stride, .padding = padding}});
  for (const Convolution& row : rows) {
    const std::string name = fmt::format("{} {}, stride {}, padding {}", row.images, row.weight,
                                         row.options.stride, row.options.padding);
    const std::int64_t O = row.weight[0], C = row.weight[1];
    Shape y{row.images[0], O, 0, 0};
    for (const int axis : {2, 3})
      y[axis] =
          (row.images[axis] + 2 * row.options.padding - row.weight[2]) / row.options.stride + 1;
    check_exact({"convolution2d " + name,
                 [&](In x) { return convolution2d(x[0], x[1], row.options, x[2]); },
                 {integers(row.images, 1), integers(row.weight, 2), integers({O}, 3)},
                 [&](const AddTerm& add) {
                   for (std::int64_t i = 0; i < y.elements(); ++i)
                     add(i, 1, {{2, i / (y[2] * y[3]) % O}});
                   for_each_product(row, y, [&](auto to, auto from, auto weight) {
                     add(to, 1, {{0, from}, {1, weight}});
                   });
                 }});
    const std::int64_t pixels = row.images[2] * row.images[3];
    check_exact({"transposed_convolution2d " + name,
                 [&](In x) {
                   return transposed_convolution2d(x[0], x[1],
                                                   {.stride = row.options.stride,
                                                    .padding = row.options.padding,
                                                    .height = row.images[2],
                                                    .width = row.images[3]},
                                                   x[2]);
                 },
                 {integers(y, 1), integers(row.weight, 2), integers({C}, 3)},
                 [&](const AddTerm& add) {
                   for (std::int64_t i = 0; i < row.images.elements(); ++i)
                     add(i, 1, {{2, i / pixels % C}});
                   for_each_product(row, y, [&](auto from, auto to, auto weight) {
                     add(to, 1, {{0, from}, {1, weight}});
                   });
                 }});
  }
}

// Few integers have many ties, and the first of equal maxima gets the gradient.
TEST_CASE("integers: pooling and its gradients are exact") {
  for (const std::int64_t K : {1, 2, 4})
    for (const std::int64_t stride : {1, 2, 3, 5})
      for (const std::int64_t padding : {std::int64_t{0}, K / 2})
        for (const Shape& images : {Shape{2, 3, 28, 28}, {1, 2, 9, 37}, {2, 1, 4, 5}}) {
          const PoolOptions options{.kernel = K, .stride = stride, .padding = padding};
          const Array x = integers(images, 1);
          const std::int64_t H = images[2], W = images[3];
          const std::int64_t h = (H + 2 * padding - K) / stride + 1,
                             w = (W + 2 * padding - K) / stride + 1;
          const auto for_each_pixel = [=](std::int64_t output, const auto& call) {
            const std::int64_t top = output / w % h * stride - padding,
                               left = output % w * stride - padding;
            for (std::int64_t row = top; row < top + K; ++row)
              for (std::int64_t column = left; column < left + K; ++column)
                if (row >= 0 && row < H && column >= 0 && column < W)
                  call((output / (h * w) * H + row) * W + column);
          };
          const std::int64_t outputs = images[0] * images[1] * h * w;
          const std::string name =
              fmt::format("{} kernel {}, stride {}, padding {}", images, K, stride, padding);
          check_exact({"max_pool2d " + name,
                       [=](In in) { return max_pool2d(in[0], options); },
                       {x},
                       [=](const AddTerm& add) {
                         const auto values = x.values<double>();
                         for (std::int64_t output = 0; output < outputs; ++output) {
                           std::int64_t best = -1;
                           for_each_pixel(output, [&](std::int64_t i) {
                             if (best < 0 || values[i] > values[best]) best = i;
                           });
                           add(output, 1, {{0, best}});
                         }
                       }});
          check_exact({"average_pool2d " + name,
                       [=](In in) { return average_pool2d(in[0], options); },
                       {x},
                       [=](const AddTerm& add) {
                         for (std::int64_t output = 0; output < outputs; ++output)
                           for_each_pixel(output, [&](std::int64_t i) {
                             add(output, 1.0 / static_cast<double>(K * K), {{0, i}});
                           });
                       }});
        }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
