#include "autograd/ops/graphs.hpp"

#include "autograd/branches.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Pointers to the neighbors and edges of an adjacency, for kernels.
struct EdgeRows {
  const std::int32_t *neighbors, *edges;
  explicit EdgeRows(const SparseRows& adjacency)
      : neighbors(adjacency.neighbors.values<std::int32_t>().data()),
        edges(adjacency.edges.values<std::int32_t>().data()) {}
};

// Calls fn(node, first, last) for all nodes, whose edges are [first, last), in order on one thread.
// `width` is the number of elements that fn reads for each edge.
template <class F>
void for_each_node(const SparseRows& adjacency, std::int64_t width, F fn) {
  const std::int64_t nodes = adjacency.offsets.size() - 1;
  const std::int64_t degree = nodes == 0 ? 1 : 1 + adjacency.edges.size() / nodes;
  const std::int32_t* offsets = adjacency.offsets.values<std::int32_t>().data();
  for_each_row(nodes, degree * width,
               [=](std::int64_t node) { fn(node, offsets[node], offsets[node + 1]); });
}

// Returns the sum over [first, last), where add(place, sum) returns `sum` plus a term. More terms
// than longest_run are added by halves.
template <class T, class Add>
Simd<T> sum_places(std::int64_t first, std::int64_t last, const Add& add) {
  Simd<T> sum(T(0));
  if (last - first > longest_run) {
    const std::int64_t middle = first + (last - first) / 2;
    return sum_places<T>(first, middle, add) + sum_places<T>(middle, last, add);
  }
  for (std::int64_t place = first; place < last; ++place) sum = add(place, sum);
  return sum;
}

// Returns y_v = Σ w x_u over the edges of each row v of an adjacency: x (M, F) -> (N, F), weights
// (E, H) or empty.
Array gather(const SparseRows& adjacency, const Array& x, const Array& weights) {
  const std::int64_t F = x.dim(1), H = weights.empty() ? 1 : weights.dim(1), D = F / H;
  Array y({adjacency.offsets.size() - 1, F}, x.dtype());
  dispatch(x.dtype(), [&, rows = EdgeRows(adjacency)]<class T>() {
    const T* in = x.values<T>().data();
    const T* weight = weights.empty() ? nullptr : weights.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_node(adjacency, F, [=](std::int64_t node, std::int64_t first, std::int64_t last) {
      for (std::int64_t column = 0; column < F;) {
        const std::int64_t h = column / D, left = std::min((h + 1) * D - column, simd_width<T>);
        const auto sum_with = [&](auto load) {
          return sum_places<T>(first, last, [=](std::int64_t place, Simd<T> sum) {
            const Simd<T> w(weight ? weight[rows.edges[place] * H + h] : T(1));
            return fma(w, load(in + rows.neighbors[place] * F + column), sum);
          });
        };
        T* to = out + node * F + column;
        if (left == simd_width<T>)
          sum_with([](const T* from) { return Simd<T>::load_unaligned(from); }).store_unaligned(to);
        else
          store_partial<T>(sum_with([left](const T* from) { return load_partial(from, left); }), to,
                           left);
        column += left;
      }
    });
  });
  return y;
}

// Returns a_j · b_i for each edge from i to j and each head, (E, H).
Array products(const Adjacency& graph, const Array& a, const Array& b, std::int64_t H) {
  Array y({graph.edges(), H}, a.dtype());
  const std::int64_t F = a.dim(1), D = F / H;
  dispatch(a.dtype(), [&, rows = EdgeRows(graph.incoming())]<class T>() {
    const T *at_target = a.values<T>().data(), *at_source = b.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_node(
        graph.incoming(), F, [=](std::int64_t node, std::int64_t first, std::int64_t last) {
          for (std::int64_t place = first; place < last; ++place)
            for (std::int64_t h = 0; h < H; ++h)
              out[place * H + h] = dot_span(D, at_target + node * F + h * D,
                                            at_source + rows.neighbors[place] * F + h * D);
        });
  });
  return y;
}

void check_nodes(const char* op, std::int64_t nodes, const Tensor& x, std::int64_t heads) {
  check_floating(op, x);
  require(x.rank() == 2 && x.dim(0) == nodes && heads >= 1 && x.dim(1) % heads == 0,
          "{}: x {} with {} heads; expected ({}, F), where the heads divide F", op, x.shape(),
          heads, nodes);
}

}  // namespace

Tensor neighbor_sum(const Adjacency& graph, const Tensor& x, const Tensor& weights) {
  const bool weighted = !weights.value().empty();
  if (weighted) {
    check_same_dtype("neighbor_sum", x, weights);
    require(weights.rank() == 2 && weights.dim(0) == graph.edges(),
            "neighbor_sum: weights {}; expected ({}, H), a row for each edge", weights.shape(),
            graph.edges());
  }
  const std::int64_t H = weighted ? weights.dim(1) : 1;
  check_nodes("neighbor_sum", graph.sources(), x, H);
  const Array y = gather(graph.incoming(), x.value(), weights.value());
  if (!weighted)
    return record("neighbor_sum", y, {x}, [graph](const Array& gradient, InputGradients& into) {
      into.add(0, gather(graph.outgoing(), gradient, {}));
    });
  return record("neighbor_sum", y, {x, weights},
                [graph, x = x.value(), weights = weights.value(), H](const Array& gradient,
                                                                     InputGradients& into) {
                  if (into.wanted(0)) into.add(0, gather(graph.outgoing(), gradient, weights));
                  if (into.wanted(1)) into.add(1, products(graph, gradient, x, H));
                });
}

Tensor edge_products(const Adjacency& graph, const Tensor& a, const Tensor& b, std::int64_t heads) {
  check_same_shape("edge_products", a, b);
  check_nodes("edge_products", graph.nodes(), a, heads);
  check_nodes("edge_products", graph.sources(), b, heads);
  return record("edge_products", products(graph, a.value(), b.value(), heads), {a, b},
                [graph, a = a.value(), b = b.value()](const Array& gradient, InputGradients& into) {
                  if (into.wanted(0)) into.add(0, gather(graph.incoming(), b, gradient));
                  if (into.wanted(1)) into.add(1, gather(graph.outgoing(), a, gradient));
                });
}

namespace {

// n columns of one segment.
struct SegmentBlock {
  std::int64_t begin, end;  // the rows [begin, end) of the segment
  std::int64_t n, F, column;
  std::int64_t own;  // index of the first column in (S, F)

  std::int64_t at(std::int64_t row) const { return row * F + column; }
};

// The S segments of the rows of x (N, F).
struct Segments {
  Array offsets;
  std::int64_t S = 0, N = 0, F = 0;

  Segments(const char* op, const Tensor& x, const Array& given) : offsets(given) {
    check_floating(op, x);
    require(x.rank() == 2 && given.dtype() == DType::int32 && given.rank() == 1 && given.size() > 0,
            "{}: x {} with offsets {}; expected x (N, F) and int32 offsets (S + 1)", op, x.shape(),
            given);
    S = given.size() - 1, N = x.dim(0), F = x.dim(1);
    const auto values = given.values<std::int32_t>();
    require(is_dry_run() ||
                (values.front() == 0 && values.back() == N && std::ranges::is_sorted(values)),
            "{}: x {} with offsets that do not ascend from 0 to {}; expected ascending ones", op,
            x.shape(), N);
  }

  std::int64_t begin(std::int64_t s) const { return offsets.values<std::int32_t>()[s]; }
  std::int64_t end(std::int64_t s) const { return begin(s + 1); }

  // Calls fn(block) for blocks of up to 64 columns of each segment; one thread computes a block.
  template <class Fn>
  void for_each(Fn fn) const {
    constexpr std::int64_t most = 64;
    const std::int64_t blocks = (F + most - 1) / most, rows = S == 0 ? 1 : 1 + N / S;
    for_each_row(S * blocks, std::min(F, most) * rows, [&](std::int64_t i) {
      const std::int64_t s = i / blocks, column = i % blocks * most;
      fn(SegmentBlock{.begin = begin(s),
                      .end = end(s),
                      .n = std::min(most, F - column),
                      .F = F,
                      .column = column,
                      .own = s * F + column});
    });
  }
};

constexpr auto plus = [](auto a, auto b) { return a + b; };
constexpr auto larger = [](auto a, auto b) { return xsimd::max(a, b); };

// Adds the rows of the block of x (N, F) to `into` (n).
template <class T>
void sum_rows(const SegmentBlock& block, const T* x, T* into) {
  add_rows(block.begin, block.end, block.n, into, [=](std::int64_t row, T* sum) {
    map_span(block.n, {sum, x + block.at(row)}, sum, plus);
  });
}

// Writes the maxima of the rows of the block, which is not empty, to `into` (n).
template <class T>
void max_rows(const SegmentBlock& block, const T* x, T* into) {
  std::copy_n(x + block.at(block.begin), block.n, into);
  for (std::int64_t row = block.begin + 1; row < block.end; ++row)
    map_span(block.n, {into, x + block.at(row)}, into, larger);
}

// Returns the sum of the rows of each segment of x (N, F): (S, F).
Array sums_of(const Segments& segments, const Array& x) {
  Array sums = Array::zeros({segments.S, segments.F}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    T* out = sums.mutable_values<T>().data();
    segments.for_each([&](const SegmentBlock& block) { sum_rows(block, in, out + block.own); });
  });
  return sums;
}

// Returns 1 for each element of x that is the maximum of its segment, best (S, F), else 0: (N, F).
Array winners_of(const Segments& segments, const Array& x, const Array& best) {
  Array winners(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T *in = x.values<T>().data(), *high = best.values<T>().data();
    T* out = winners.mutable_values<T>().data();
    segments.for_each([&](const SegmentBlock& block) {
      for (std::int64_t row = block.begin; row < block.end; ++row)
        map_span(
            block.n, {in + block.at(row), high + block.own}, out + block.at(row),
            [](auto v, auto b) { return select(v == b, decltype(v)(T(1)), decltype(v)(T(0))); });
    });
  });
  return winners;
}

// Returns the mean of the maxima of each segment, or 0: (S, F).
Array means_of_winners(const Segments& segments, const Array& x, const Array& winners) {
  const auto chosen = [](auto v, auto w) { return select(w == decltype(w)(0), w, v); };
  const auto share = [](auto total, auto n) { return select(n == decltype(n)(0), n, total / n); };
  return map_arrays(share, sums_of(segments, map_arrays(chosen, x, winners)),
                    sums_of(segments, winners));
}

Tensor scaled_sum(const char* op, const Tensor& x, const Array& offsets, bool average) {
  const Segments segments(op, x, offsets);
  const auto share = [average](std::int64_t rows) {
    return average ? 1.0 / std::max<std::int64_t>(1, rows) : 1.0;
  };
  Array y = sums_of(segments, x.value());
  dispatch(x.dtype(), [&]<class T>() {
    T* out = y.mutable_values<T>().data();
    segments.for_each([&](const SegmentBlock& block) {
      const Simd<T> factor(T(share(block.end - block.begin)));
      map_span(block.n, {out + block.own}, out + block.own,
               [factor](auto v) { return v * factor; });
    });
  });
  return record(op, y, {x}, [segments, share](const Array& gradient, InputGradients& into) {
    Array dx({segments.N, segments.F}, gradient.dtype());
    dispatch(gradient.dtype(), [&]<class T>() {
      const T* dy = gradient.values<T>().data();
      T* out = dx.mutable_values<T>().data();
      segments.for_each([&](const SegmentBlock& block) {
        const Simd<T> factor(T(share(block.end - block.begin)));
        for (std::int64_t row = block.begin; row < block.end; ++row)
          map_span(block.n, {dy + block.own}, out + block.at(row),
                   [factor](auto g) { return g * factor; });
      });
    });
    into.add(0, dx);
  });
}

}  // namespace

Tensor segment_sum(const Tensor& x, const Array& offsets) {
  return scaled_sum("segment_sum", x, offsets, false);
}

Tensor segment_mean(const Tensor& x, const Array& offsets) {
  return scaled_sum("segment_mean", x, offsets, true);
}

Tensor segment_max(const Tensor& x, const Array& offsets) {
  const Segments segments("segment_max", x, offsets);
  Array y = Array::zeros({segments.S, segments.F}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.value().values<T>().data();
    T* out = y.mutable_values<T>().data();
    segments.for_each([&](const SegmentBlock& block) {
      if (block.begin < block.end) max_rows(block, in, out + block.own);
    });
  });
  const Tensor best = record(
      "segment_max", y, {x},
      [segments, x = x.value(), y](const Array& gradient, InputGradients& into) {
        const Array winners = winners_of(segments, x, y), ties = sums_of(segments, winners);
        Array dx(x.shape(), x.dtype());
        dispatch(x.dtype(), [&]<class T>() {
          const T *wins = winners.values<T>().data(), *count = ties.values<T>().data();
          const T* dy = gradient.values<T>().data();
          T* out = dx.mutable_values<T>().data();
          segments.for_each([&](const SegmentBlock& block) {
            for (std::int64_t row = block.begin; row < block.end; ++row)
              map_span(block.n, {wins + block.at(row), dy + block.own, count + block.own},
                       out + block.at(row), [](auto w, auto g, auto n) { return w * (g / n); });
          });
        });
        into.add(0, dx);
      });
  return in_held_branches(
      best, [&] { return winners_of(segments, x.value(), y); },
      [&](const Array& winners) { return means_of_winners(segments, x.value(), winners); });
}

namespace {

// Returns e^x / Σ e^x within each segment and column of x (N, F).
Array softmax_by_segment(const Segments& segments, const Array& x) {
  Array y(x.shape(), x.dtype());
  Array highs({segments.S, segments.F}, x.dtype());
  Array totals = Array::zeros(highs.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    T *out = y.mutable_values<T>().data(), *highest = highs.mutable_values<T>().data();
    T* sums = totals.mutable_values<T>().data();
    segments.for_each([&](const SegmentBlock& block) {
      if (block.begin == block.end) return;
      T *high = highest + block.own, *total = sums + block.own;
      max_rows(block, in, high);
      for (std::int64_t row = block.begin; row < block.end; ++row)
        map_span(block.n, {in + block.at(row), high}, out + block.at(row),
                 [](auto v, auto shift) { return exp(v - shift); });
      sum_rows(block, out, total);
      for (std::int64_t row = block.begin; row < block.end; ++row)
        map_span(block.n, {out + block.at(row), total}, out + block.at(row),
                 [](auto v, auto sum) { return v / sum; });
    });
  });
  return y;
}

// Returns dx = y (dy - Σ dy y) of y = softmax_by_segment(x).
Array softmax_by_segment_gradient(const Segments& segments, const Array& y, const Array& gradient) {
  Array dx(y.shape(), y.dtype());
  Array means = Array::zeros({segments.S, segments.F}, y.dtype());
  dispatch(y.dtype(), [&]<class T>() {
    const T *p = y.values<T>().data(), *dy = gradient.values<T>().data();
    T *out = dx.mutable_values<T>().data(), *mean = means.mutable_values<T>().data();
    segments.for_each([&](const SegmentBlock& block) {
      const std::int64_t at = block.own;
      add_rows(block.begin, block.end, block.n, mean + at, [=](std::int64_t row, T* sum) {
        map_span(block.n, {sum, p + block.at(row), dy + block.at(row)}, sum,
                 [](auto m, auto v, auto g) { return fma(v, g, m); });
      });
      for (std::int64_t row = block.begin; row < block.end; ++row)
        map_span(block.n, {p + block.at(row), dy + block.at(row), mean + at}, out + block.at(row),
                 [](auto v, auto g, auto m) { return v * (g - m); });
    });
  });
  return dx;
}

// Returns a_j + b_i for each edge from i to j, (E, H).
Array edge_sums(const Adjacency& graph, const Array& a, const Array& b) {
  const std::int64_t H = a.dim(1);
  Array y({graph.edges(), H}, a.dtype());
  dispatch(a.dtype(), [&, rows = EdgeRows(graph.incoming())]<class T>() {
    const T *at_target = a.values<T>().data(), *at_source = b.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_node(graph.incoming(), H, [=](auto node, std::int64_t first, std::int64_t last) {
      for (std::int64_t place = first; place < last; ++place)
        map_span(H, {at_target + node * H, at_source + rows.neighbors[place] * H}, out + place * H,
                 plus);
    });
  });
  return y;
}

// Returns the sums of the rows of values (E, H) over the edges of each row of an adjacency: (N, H).
Array sums_of_edges(const SparseRows& adjacency, const Array& values) {
  const std::int64_t H = values.dim(1);
  Array y = Array::zeros({adjacency.offsets.size() - 1, H}, values.dtype());
  dispatch(values.dtype(), [&, rows = EdgeRows(adjacency)]<class T>() {
    const T* in = values.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_node(adjacency, H, [=](auto node, std::int64_t first, std::int64_t last) {
      add_rows(first, last, H, out + node * H, [=](std::int64_t place, T* sum) {
        map_span(H, {sum, in + rows.edges[place] * H}, sum, plus);
      });
    });
  });
  return y;
}

}  // namespace

Tensor segment_softmax(const Tensor& x, const Array& offsets) {
  const Segments segments("segment_softmax", x, offsets);
  const Array y = softmax_by_segment(segments, x.value());
  return record("segment_softmax", y, {x},
                [segments, y](const Array& gradient, InputGradients& into) {
                  into.add(0, softmax_by_segment_gradient(segments, y, gradient));
                });
}

Tensor edge_softmax(const Adjacency& graph, const Tensor& a, const Tensor& b, double slope) {
  check_same_dtype("edge_softmax", a, b);
  check_nodes("edge_softmax", graph.nodes(), a, 1);
  check_nodes("edge_softmax", graph.sources(), b, 1);
  require(a.dim(1) == b.dim(1), "edge_softmax: a {} and b {}; expected as many heads", a.shape(),
          b.shape());
  require_value(slope >= 0 && std::isfinite(slope), "edge_softmax", "slope", slope,
                "a finite number of 0 or more");
  // Returns v, or slope · v where the score is not positive.
  const auto bent = [slope](auto v, auto score) {
    using V = decltype(v);
    return select(score > V(0), v, v * V(Scalar<V>(slope)));
  };
  const auto is_positive_score = [](auto v) {
    return select(v > decltype(v)(0), decltype(v)(1), decltype(v)(0));
  };
  const Array scores = edge_sums(graph, a.value(), b.value());
  const Segments segments("edge_softmax", scores, graph.incoming().offsets);
  const Array y = softmax_by_segment(segments, map_arrays(bent, scores, scores));
  const Tensor weights =
      record("edge_softmax", y, {a, b}, [=](const Array& gradient, InputGradients& into) {
        const Array dx =
            map_arrays(bent, softmax_by_segment_gradient(segments, y, gradient), scores);
        if (into.wanted(0)) into.add(0, sums_of_edges(graph.incoming(), dx));
        if (into.wanted(1)) into.add(1, sums_of_edges(graph.outgoing(), dx));
      });
  return in_held_branches(
      weights, [&] { return map_arrays(is_positive_score, scores); },
      [&](const Array& positive) {
        return softmax_by_segment(segments, map_arrays(bent, scores, positive));
      });
}

}  // namespace tapestry
