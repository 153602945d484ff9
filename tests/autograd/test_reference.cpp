#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xview.hpp>

#include "autograd/ops.hpp"
#include "autograd/xtensor.hpp"
#include "tests/support/graphs.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/op_table.hpp"

// Compares the values of ops, in float64 and for random shapes, with expressions of xtensor.
namespace tapestry {
namespace {

using Values = xt::xarray<double>;
Values values_of(const Array& array) { return xtensor_view<double>(array); }

// Returns A · B over the last two axes; the others are broadcast.
Values product(const Values& a, const Values& b) {
  return xt::sum(xt::expand_dims(a, a.dimension()) * xt::expand_dims(b, b.dimension() - 2),
                 {std::max(a.dimension(), b.dimension()) - 1});
}

// Transposes the last two axes.
Values transposed(const Values& x) {
  std::vector<std::size_t> axes(x.dimension());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return xt::transpose(x, axes);
}

Values rows_of(const Values& x, std::int64_t begin, std::int64_t end) {
  return xt::view(x, xt::range(begin, end));
}
Values columns_of(const Values& x, std::int64_t begin, std::int64_t end) {
  return xt::strided_view(x, {xt::ellipsis(), xt::range(begin, end)});
}

// Returns the sum over the last axis, which is kept with extent 1.
Values column_sum(const Values& x) { return xt::sum(x, {x.dimension() - 1}, xt::keep_dims); }
Values softmax_of(const Values& x) {
  const Values highest = xt::amax(x, {x.dimension() - 1}, xt::keep_dims), e = xt::exp(x - highest);
  return e / column_sum(e);
}
Values sigmoid_of(const Values& x) { return 1 / (1 + xt::exp(-x)); }
Values gelu_of(const Values& x) { return x / 2 * (1 + xt::erf(x / std::sqrt(2.0))); }
Values layer_norm_of(const Values& x, double epsilon) {
  const double C = static_cast<double>(x.shape().back());
  const Values centered = x - column_sum(x) / C;
  return centered / xt::sqrt(column_sum(xt::square(centered)) / C + epsilon);
}
Values rms_norm_of(const Values& x, double epsilon) {
  return x / xt::sqrt(column_sum(xt::square(x)) / double(x.shape().back()) + epsilon);
}

using X = const std::vector<Values>&;
using V = const Values&;
using Axes = const std::vector<std::size_t>&;

struct ReferenceCase {
  std::vector<Array> inputs;
  Function f;
  std::function<Values(X)> expected;
};

// A generator of random shapes and numbers.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed, Stream::data) {}

  std::int64_t below(std::int64_t bound) { return random_.below(bound); }
  std::int64_t extent() { return std::array{0, 1, 2, 3, 5, 8, 17, 33}[below(8)]; }
  Shape shape(int least_rank = 0) {
    Shape shape;
    for (std::int64_t rank = least_rank + below(4 - least_rank); rank > 0; --rank)
      shape.push_back(extent());
    return shape;
  }
  // N(0, 1).
  Array array(const Shape& shape) {
    Array array(shape, f32);
    random_.fill_normal(array, 0, 1);
    return array.to(f64);
  }
  Array any(int least_rank = 0) { return array(shape(least_rank)); }
  Array positive(const Shape& shape) {
    Array array(shape, f32);
    random_.fill_uniform(array, 0.1, 3);
    return array.to(f64);
  }
  // Returns a shape that broadcasts to the other: some axes are 1, and some of the first are
  // missing.
  Shape stretched(const Shape& shape) {
    Shape own;
    for (int axis = static_cast<int>(below(shape.rank() + 1)); axis < shape.rank(); ++axis)
      own.push_back(below(2) == 0 ? 1 : shape[axis]);
    return own;
  }
  // Returns some axes, at least one.
  std::vector<int> axes(int rank) {
    std::vector<int> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    random_.shuffle(axes);
    axes.resize(1 + below(rank));
    return axes;
  }
  Array offsets(std::int64_t segments, std::int64_t rows) {
    Ints ends = {0, static_cast<std::int32_t>(rows)};
    for (; std::ssize(ends) <= segments; ends.push_back(static_cast<std::int32_t>(below(rows + 1))))
      ;
    std::ranges::sort(ends);
    return Array::of(ends, {std::ssize(ends)});
  }

 private:
  Random random_;
};

struct ReferenceRow {
  const char* op;
  std::function<ReferenceCase(Draw&)> draw;
};

std::vector<std::size_t> places(const std::vector<int>& axes) {  // in ascending order
  std::vector<std::size_t> places(axes.begin(), axes.end());
  std::ranges::sort(places);
  return places;
}
std::int32_t at(const Array& offsets, std::int64_t i) { return offsets.values<std::int32_t>()[i]; }

ReferenceRow unary_row(const char* op, Tensor (*f)(const Tensor&),
                       Values (*expected)(const Values&), bool is_positive = false) {
  return {op, [=](Draw& draw) {
            const Shape shape = draw.shape();
            return ReferenceCase{{is_positive ? draw.positive(shape) : draw.array(shape)},
                                 [=](In x) { return f(x[0]); },
                                 [=](X x) { return expected(x[0]); }};
          }};
}

ReferenceRow binary_row(const char* op, Tensor (*f)(const Tensor&, const Tensor&),
                        Values (*expected)(const Values&, const Values&), bool broadcasts) {
  return {op, [=](Draw& draw) {
            Shape a = draw.shape(), b = a;
            if (broadcasts) (draw.below(2) == 0 ? a : b) = draw.stretched(a);
            return ReferenceCase{{draw.array(a), draw.positive(b)},
                                 [=](In x) { return f(x[0], x[1]); },
                                 [=](X x) { return expected(x[0], x[1]); }};
          }};
}

// Reduces the rows of each segment; 0 for an empty one.
ReferenceRow segment_row(const char* op, Tensor (*f)(const Tensor&, const Array&),
                         Values (*of_rows)(const Values&)) {
  return {op, [=](Draw& draw) {
            const std::int64_t N = draw.extent(), F = draw.extent(), S = 1 + draw.below(6);
            const Array offsets = draw.offsets(S, N);
            return ReferenceCase{
                {draw.array({N, F})},
                [=](In x) { return f(x[0], offsets); },
                [=](X x) {
                  Values y = xt::zeros<double>({S, F});
                  for (std::int64_t s = 0; s < S; ++s)
                    if (at(offsets, s) < at(offsets, s + 1))
                      xt::view(y, s) = of_rows(rows_of(x[0], at(offsets, s), at(offsets, s + 1)));
                  return y;
                }};
          }};
}

ReferenceRow reduce_row(const char* op, Tensor (*f)(const Tensor&, const std::vector<int>&, Keep),
                        Values (*expected)(const Values&, const std::vector<std::size_t>&)) {
  return {op, [=](Draw& draw) {
            const Array x = draw.any(1);
            const std::vector<int> axes = draw.axes(x.rank());
            return ReferenceCase{{x},
                                 [=](In v) { return f(v[0], axes, Keep::no); },
                                 [=](X v) { return expected(v[0], places(axes)); }};
          }};
}

std::vector<ReferenceRow> reference_rows() {
  std::vector<ReferenceRow> table = {
      unary_row("exp", exp, [](V x) -> Values { return xt::exp(x); }),
      unary_row(
          "log", log, [](V x) -> Values { return xt::log(x); }, true),
      unary_row(
          "sqrt", sqrt, [](V x) -> Values { return xt::sqrt(x); }, true),
      unary_row("sin", sin, [](V x) -> Values { return xt::sin(x); }),
      unary_row("cos", cos, [](V x) -> Values { return xt::cos(x); }),
      unary_row("tanh", tanh, [](V x) -> Values { return xt::tanh(x); }),
      unary_row("sigmoid", sigmoid, sigmoid_of),
      unary_row("relu", relu, [](V x) -> Values { return xt::maximum(x, 0.0); }),
      unary_row(
          "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); },
          [](V x) -> Values { return xt::where(x > 0, x, 0.2 * x); }),
      unary_row("elu", elu, [](V x) -> Values { return xt::where(x > 0, x, xt::expm1(x)); }),
      unary_row("gelu", gelu, gelu_of),
      unary_row("gelu_tanh", gelu_tanh,
                [](V x) -> Values {
                  return x / 2 * (1 + xt::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
                }),
      unary_row("silu", silu, [](V x) -> Values { return x * sigmoid_of(x); }),
      unary_row(
          "scale", [](const Tensor& x) { return scale(x, -2.5); },
          [](V x) -> Values { return -2.5 * x; }),
      binary_row(
          "add", add, [](V a, V b) -> Values { return a + b; }, true),
      binary_row(
          "subtract", subtract, [](V a, V b) -> Values { return a - b; }, true),
      binary_row(
          "multiply", multiply, [](V a, V b) -> Values { return a * b; }, true),
      binary_row(
          "divide", divide, [](V a, V b) -> Values { return a / b; }, true),
      binary_row(
          "squared_error", squared_error, [](V a, V b) -> Values { return xt::square(a - b); },
          false),
      binary_row(
          "binary_cross_entropy", binary_cross_entropy,
          [](V x, V t) -> Values {
            return -t * xt::log(sigmoid_of(x)) - (1 - t) * xt::log(sigmoid_of(-x));
          },
          false),
      binary_row(
          "gaussian_kl", gaussian_kl,
          [](V mean, V log_sigma) -> Values {
            return 0.5 * (xt::square(mean) + xt::exp(2 * log_sigma) - 1) - log_sigma;
          },
          false),
      reduce_row("sum", sum, [](V x, Axes axes) -> Values { return xt::sum(x, axes); }),
      reduce_row("mean", mean,
                 [](V x, Axes axes) -> Values {
                   return xt::sum(x, axes) / (double(x.size()) / double(xt::sum(x, axes).size()));
                 }),
      reduce_row("max", max,
                 [](V x, Axes axes) -> Values {
                   const Values y = xt::amax(x, axes);  // the lowest number if empty
                   return xt::where(y < -1e300, -infinity, y);
                 }),
      segment_row("segment_sum", segment_sum, [](V x) -> Values { return xt::sum(x, {0}); }),
      segment_row("segment_mean", segment_mean, [](V x) -> Values { return xt::mean(x, {0}); }),
      segment_row("segment_max", segment_max, [](V x) -> Values { return xt::amax(x, {0}); }),
  };
  const auto row = [&](const char* op, const std::function<ReferenceCase(Draw&)>& draw) {
    table.push_back({op, draw});
  };
  row("swiglu", [](Draw& draw) {
    Shape shape = draw.shape(1);
    shape[-1] *= 2;
    return ReferenceCase{{draw.array(shape)},
                         [](In x) { return swiglu(x[0]); },
                         [F = shape[-1] / 2](X x) -> Values {
                           const Values a = columns_of(x[0], 0, F);
                           return a * sigmoid_of(a) * columns_of(x[0], F, 2 * F);
                         }};
  });
  row("reshape", [](Draw& draw) {
    const std::int64_t a = draw.extent(), b = draw.extent(), c = draw.extent();
    return ReferenceCase{{draw.array({a, b, c})},
                         [=](In x) {
                           return reshape(x[0], {b, c * a});
                         },
                         [=](X x) -> Values {
                           return xt::reshape_view(x[0], {b, c * a});
                         }};
  });
  row("permute", [](Draw& draw) {
    const Array x = draw.any(1);
    std::vector<int> axes = draw.axes(x.rank());
    for (int axis = 0; axis < x.rank(); ++axis)
      if (std::ranges::find(axes, axis) == axes.end()) axes.push_back(axis);
    return ReferenceCase{{x},
                         [=](In v) { return permute(v[0], axes); },
                         [=](X v) -> Values { return xt::transpose(v[0], axes); }};
  });
  row("slice", [](Draw& draw) {
    const Shape shape{draw.extent(), draw.extent(), draw.extent()};
    const std::int64_t begin = draw.below(shape[1] + 1),
                       end = begin + draw.below(shape[1] - begin + 1);
    return ReferenceCase{
        {draw.array(shape)},
        [=](In x) { return slice(x[0], 1, begin, end); },
        [=](X x) -> Values { return xt::view(x[0], xt::all(), xt::range(begin, end)); }};
  });
  row("concat", [](Draw& draw) {
    const std::int64_t B = draw.extent(), C = draw.extent();
    return ReferenceCase{{draw.array({B, draw.extent(), C}), draw.array({B, draw.extent(), C})},
                         [](In x) { return concat(x, 1); },
                         [](X x) -> Values { return xt::concatenate(xt::xtuple(x[0], x[1]), 1); }};
  });
  row("stack", [](Draw& draw) {
    const Shape shape = draw.shape(1);
    const int axis = static_cast<int>(draw.below(shape.rank() + 1));
    return ReferenceCase{{draw.array(shape), draw.array(shape)},
                         [=](In x) { return stack(x, axis); },
                         [=](X x) -> Values { return xt::stack(xt::xtuple(x[0], x[1]), axis); }};
  });
  row("gather", [](Draw& draw) {
    const std::int64_t N = 1 + draw.extent();
    const Array index = random_tokens({draw.extent()}, N, draw.below(1000));
    return ReferenceCase{
        {draw.array({draw.extent(), N, draw.extent()})},
        [=](In x) { return gather(x[0], 1, index); },
        [=](X x) -> Values { return xt::view(x[0], xt::all(), xt::keep(ints_of(index))); }};
  });
  row("scatter_add", [](Draw& draw) {
    const std::int64_t B = draw.extent(), N = 1 + draw.extent(), M = draw.extent();
    const Array index = random_tokens({B, M}, N, draw.below(1000));
    return ReferenceCase{{draw.array({B, N}), draw.array({B, M})},
                         [=](In x) { return scatter_add(x[0], 1, index, x[1]); },
                         [=](X x) {
                           Values y = x[0];
                           for (std::int64_t i = 0; i < B; ++i)
                             for (std::int64_t j = 0; j < M; ++j)
                               y(i, at(index, i * M + j)) += x[1](i, j);
                           return y;
                         }};
  });
  row("where", [](Draw& draw) {
    const Shape shape = draw.shape();
    const Array choice = random_tokens(shape, 2, draw.below(1000));
    return ReferenceCase{
        {draw.array(draw.stretched(shape)), draw.array(draw.stretched(shape))},
        [=](In x) { return where(choice, x[0], x[1]); },
        [c = values_of(choice.to(f64))](X x) -> Values { return xt::where(c > 0, x[0], x[1]); }};
  });
  row("unfold", [](Draw& draw) {
    const std::int64_t B = draw.extent(), T = draw.extent(), C = draw.extent(),
                       K = 1 + draw.below(4), stride = 1 + draw.below(3);
    return ReferenceCase{
        {draw.array({B, T, C})},
        [=](In x) { return unfold(x[0], {.width = K, .stride = stride}); },
        [=](X x) {
          const std::int64_t windows = T < K ? 0 : (T - K) / stride + 1;
          Values y = xt::zeros<double>({B, windows, K * C});
          for (std::int64_t t = 0; t < windows; ++t)
            xt::view(y, xt::all(), t) = xt::reshape_view(
                xt::eval(xt::view(x[0], xt::all(), xt::range(t * stride, t * stride + K))),
                {B, K * C});
          return y;
        }};
  });
  row("softmax", [](Draw& draw) {
    return ReferenceCase{
        {draw.any(1)}, [](In x) { return softmax(x[0]); }, [](X x) { return softmax_of(x[0]); }};
  });
  row("log_softmax", [](Draw& draw) {
    return ReferenceCase{{draw.any(1)},
                         [](In x) { return log_softmax(x[0]); },
                         [](X x) -> Values { return xt::log(softmax_of(x[0])); }};
  });
  row("cross_entropy", [](Draw& draw) {
    const std::int64_t N = draw.extent(), V = 1 + draw.extent();
    const Array targets = random_tokens({N}, V, draw.below(1000));
    return ReferenceCase{{draw.array({N, V})},
                         [=](In x) { return cross_entropy(x[0], targets, {.mean = false}); },
                         [=](X x) {
                           Values loss = xt::zeros<double>({1});
                           for (std::int64_t i = 0; i < N; ++i)
                             loss -= std::log(softmax_of(x[0])(i, at(targets, i)));
                           return loss.reshape({});
                         }};
  });
  row("matmul", [](Draw& draw) {
    const std::int64_t M = draw.extent(), K = draw.extent(), N = draw.extent();
    const Shape batch{draw.extent(), 1 + draw.below(3)}, own = draw.stretched(batch);
    const auto matrices = [&](Shape shape, std::int64_t rows, std::int64_t columns) {
      shape.push_back(rows), shape.push_back(columns);
      return draw.array(shape);
    };
    return ReferenceCase{{matrices(batch, M, K), matrices(own, N, K)},
                         [](In x) { return matmul(x[0], x[1], {.transpose_b = true}); },
                         [](X x) { return product(x[0], transposed(x[1])); }};
  });
  row("linear", [](Draw& draw) {
    const Array x = draw.any(1);
    const std::int64_t O = draw.extent();
    return ReferenceCase{{x, draw.array({O, x.dim(-1)}), draw.array({O})},
                         [](In v) { return linear(v[0], v[1], v[2]); },
                         [](X v) -> Values {
                           return xt::sum(xt::expand_dims(v[0], v[0].dimension() - 1) * v[1],
                                          {v[0].dimension()}) +
                                  v[2];
                         }};
  });
  row("add_low_rank", [](Draw& draw) {
    const std::int64_t N = draw.extent(), I = draw.extent(), O = draw.extent(), r = 2;
    return ReferenceCase{
        {draw.array({N, O}), draw.array({N, I}), draw.array({r, I}), draw.array({O, r})},
        [](In x) {
          return add_low_rank(x[0], x[1], {{x[2], x[3]}}, 0.5);
        },
        [](X x) -> Values { return x[0] + 0.5 * product(x[1], transposed(product(x[3], x[2]))); }};
  });
  row("embedding", [](Draw& draw) {
    const std::int64_t V = 1 + draw.extent(), C = draw.extent(), N = draw.extent();
    const Array tokens = random_tokens({N}, V, draw.below(1000));
    return ReferenceCase{{draw.array({V, C})},
                         [=](In x) { return embedding(x[0], tokens); },
                         [=](X x) -> Values { return xt::view(x[0], xt::keep(ints_of(tokens))); }};
  });
  row("layer_norm", [](Draw& draw) {
    const Array x = draw.any(1);
    return ReferenceCase{{x, draw.array({x.dim(-1)}), draw.array({x.dim(-1)})},
                         [](In v) { return layer_norm(v[0], v[1], v[2], 0.1); },
                         [](X v) -> Values { return layer_norm_of(v[0], 0.1) * v[1] + v[2]; }};
  });
  row("group_norm", [](Draw& draw) {
    const std::int64_t G = 1 + draw.below(4), C = G * (1 + draw.below(3));
    const Array x = draw.array({draw.extent(), C, draw.extent(), draw.extent()});
    return ReferenceCase{
        {x, draw.array({C}), draw.array({C})},
        [=](In v) { return group_norm(v[0], v[1], v[2], {.groups = G, .epsilon = 0.1}); },
        [=](X v) -> Values {
          const std::vector<std::size_t> shape(v[0].shape().begin(), v[0].shape().end());
          Values rows = v[0];
          rows.reshape({static_cast<std::size_t>(x.dim(0) * G),
                        static_cast<std::size_t>(C / G * x.dim(2) * x.dim(3))});
          Values unit = layer_norm_of(rows, 0.1);
          unit.reshape(shape);
          return unit * xt::view(v[1], xt::all(), xt::newaxis(), xt::newaxis()) +
                 xt::view(v[2], xt::all(), xt::newaxis(), xt::newaxis());
        }};
  });
  row("rms_norm", [](Draw& draw) {
    const Array x = draw.any(1);
    return ReferenceCase{{x, draw.array({x.dim(-1)})},
                         [](In v) { return rms_norm(v[0], v[1], {.epsilon = 0.1}); },
                         [](X v) -> Values { return rms_norm_of(v[0], 0.1) * v[1]; }};
  });
  row("unit_rows", [](Draw& draw) {
    return ReferenceCase{
        {draw.any(1)},
        [](In x) { return unit_rows(x[0]); },
        [](X x) -> Values { return x[0] / xt::sqrt(column_sum(xt::square(x[0]))); }};
  });
  row("sine_features", [](Draw& draw) {
    const std::int64_t D = 1 + draw.extent();
    return ReferenceCase{{draw.array({draw.extent(), D, draw.extent()})},
                         [](In x) { return sine_features(x[0]); },
                         [=](X x) -> Values {
                           return xt::concatenate(xt::xtuple(xt::sin(x[0]), xt::cos(x[0])), 1) /
                                  std::sqrt(double(D));
                         }};
  });
  row("scaled_dot_product_attention", [](Draw& draw) {
    const std::int64_t T = draw.extent(), S = 1 + draw.extent(), D = 1 + draw.extent();
    const Array mask = draw.array({T, S});
    return ReferenceCase{
        {draw.array({2, 3, T, D}), draw.array({2, 3, S, D}), draw.array({2, 3, S, D})},
        [=](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = mask}); },
        [=](X x) {
          return product(softmax_of(product(x[0], transposed(x[1])) / std::sqrt(double(D)) +
                                    xtensor_view<double>(mask)),
                         x[2]);
        }};
  });
  row("linear_attention", [](Draw& draw) {
    const std::int64_t T = draw.extent(), S = 1 + draw.extent(), F = 1 + draw.extent(),
                       D = draw.extent();
    return ReferenceCase{
        {draw.positive({2, 1, F, T}), draw.positive({2, 1, F, S}), draw.array({2, S, D})},
        [](In x) { return linear_attention(x[0], x[1], x[2]); },
        [](X x) -> Values {
          const Values weights = xt::view(product(transposed(x[0]), x[1]), xt::all(), 0);
          return product(weights / column_sum(weights), x[2]);
        }};
  });
  row("neighbor_sum", [](Draw& draw) {
    const std::int64_t N = 1 + draw.extent(), F = draw.extent();
    const Adjacency graph = random_graph(N, 40, draw.below(1000));
    return ReferenceCase{
        {draw.array({N, F})},
        [=](In x) { return neighbor_sum(graph, x[0]); },
        [=](X x) { return product(xtensor_view<double>(dense(graph, 1, 0)), x[0]); }};
  });
  row("edge_products", [](Draw& draw) {
    const std::int64_t N = 1 + draw.extent(), F = draw.extent();
    const Adjacency graph = random_graph(N, 40, draw.below(1000));
    return ReferenceCase{{draw.array({N, F}), draw.array({N, F})},
                         [=](In x) { return edge_products(graph, x[0], x[1]); },
                         [=](X x) {
                           const Values all = product(x[0], transposed(x[1]));
                           Values y = xt::zeros<double>({graph.edges(), std::int64_t{1}});
                           for (std::int64_t e = 0; const Edge& edge : graph.list())
                             y(e++, 0) = all(edge.to, edge.from);
                           return y;
                         }};
  });
  row("segment_softmax", [](Draw& draw) {
    const std::int64_t N = draw.extent(), F = draw.extent();
    const Array offsets = draw.offsets(1 + draw.below(6), N);
    return ReferenceCase{
        {draw.array({N, F})},
        [=](In x) { return segment_softmax(x[0], offsets); },
        [=](X x) {
          Values y = x[0];
          for (std::int64_t s = 0; s + 1 < offsets.size(); ++s)
            xt::view(y, xt::range(at(offsets, s), at(offsets, s + 1))) = transposed(
                softmax_of(transposed(rows_of(x[0], at(offsets, s), at(offsets, s + 1)))));
          return y;
        }};
  });
  row("rotary", [](Draw& draw) {
    const std::int64_t B = draw.extent(), T = draw.extent(), D = 2 * (1 + draw.below(20));
    return ReferenceCase{
        {draw.array({B, T, D})},
        [](In x) { return rotary(x[0]); },
        [=](X x) {
          const Values rates = xt::pow(1e4, -xt::arange<double>(0, D, 2) / double(D));
          const Values angles = xt::expand_dims(xt::arange<double>(T), 1) * rates;
          const auto pairs = [&](auto& of, int i) {  // every second column
            return xt::view(of, xt::all(), xt::all(), xt::range(i, D, 2));
          };
          Values y = x[0];
          pairs(y, 0) = pairs(x[0], 0) * xt::cos(angles) - pairs(x[0], 1) * xt::sin(angles);
          pairs(y, 1) = pairs(x[0], 0) * xt::sin(angles) + pairs(x[0], 1) * xt::cos(angles);
          return y;
        }};
  });
  row("linear_recurrence", [](Draw& draw) {
    const std::int64_t B = draw.extent(), T = draw.extent(), C = draw.extent();
    return ReferenceCase{{draw.array(draw.stretched({B, T, C})), draw.array({B, T, C})},
                         [](In x) { return linear_recurrence(x[0] * 0.5, x[1]); },
                         [=](X x) {
                           const Values gates = xt::broadcast(0.5 * x[0], {B, T, C});
                           Values h = x[1];
                           for (std::int64_t t = 1; t < T; ++t)
                             xt::view(h, xt::all(), t) +=
                                 xt::view(gates, xt::all(), t) * xt::view(h, xt::all(), t - 1);
                           return h;
                         }};
  });
  row("tanh_recurrence", [](Draw& draw) {
    const std::int64_t B = draw.extent(), T = draw.extent(), H = draw.extent();
    return ReferenceCase{{draw.array({B, T, H}), draw.array({H, H})},
                         [](In x) { return tanh_recurrence(x[0], x[1] * 0.2); },
                         [=](X x) {
                           Values h = xt::tanh(x[0]);
                           for (std::int64_t t = 1; t < T; ++t)
                             xt::view(h, xt::all(), t) = xt::tanh(
                                 xt::view(x[0], xt::all(), t) +
                                 product(xt::view(h, xt::all(), t - 1), transposed(0.2 * x[1])));
                           return h;
                         }};
  });
  return table;
}

// Ops without an xtensor expression, and the tests of their values.
const std::map<std::string, std::string> held_elsewhere = {
    {"dropout", "random numbers: test_ops.cpp counts and scales them"},
    {"recompute", "calls a function: test_transformer.cpp compares with its bits"},
    {"convolution2d", "seven loops: test_integers.cpp compares with the definition"},
    {"average_pool2d", "four loops: test_integers.cpp compares with the definition"},
    {"max_pool2d", "four loops: test_integers.cpp compares with the definition"},
    {"transposed_convolution2d", "loops: test_integers.cpp compares with the definition"},
    {"negative_sampling", "test_ops.cpp compares with its composition"},
    {"lstm", "test_fused_ops.cpp compares with its equations"},
    {"edge_softmax", "test_graph_ops.cpp compares with gathered scores"},
    {"split", "slices, which test_ops.cpp compares"},
    {"chunk", "as split"},
    {"gru", "as lstm"},
    {"packed_self_attention", "test_fused_ops.cpp compares with scaled_dot_product_attention"},
    {"packed_cross_attention", "test_fused_ops.cpp compares with scaled_dot_product_attention"}};

TEST_SUITE_BEGIN("reference");
TEST_CASE("reference: ops have the values of xtensor expressions" *
          not_sanitized("xtensor moves the null pointer of an empty array")) {
  for (const ReferenceRow& row : reference_rows())
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
      CAPTURE(std::string(row.op));
      CAPTURE(seed);
      Draw draw(seed);
      const ReferenceCase drawn = row.draw(draw);
      std::vector<Values> values;
      for (const Array& input : drawn.inputs) values.push_back(xtensor_view<double>(input));
      const Array found = drawn.f({drawn.inputs.begin(), drawn.inputs.end()}).value();
      const Values expected = drawn.expected(values);
      REQUIRE(std::ranges::equal(found.shape(), expected.shape()));
      CHECK(xt::all(xt::isclose(values_of(found), expected, 1e-12, 1e-12, true)));
    }
}

TEST_CASE("reference: every op has a row, or the name of another test") {
  std::set<std::string> rows;
  for (const ReferenceRow& row : reference_rows()) rows.insert(row.op);
  for (const std::string& op : declared_ops())
    CHECK_MESSAGE(rows.contains(op) != held_elsewhere.contains(op), op);
}
TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
