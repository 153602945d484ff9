#include "autograd/ops/edges.hpp"

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Pointers to the rows of an adjacency, for kernels.
struct EdgeRows {
  const std::int32_t *offsets, *neighbours, *edges;
  explicit EdgeRows(const SparseRows& adjacency)
      : offsets(adjacency.offsets.values<std::int32_t>().data()),
        neighbours(adjacency.neighbours.values<std::int32_t>().data()),
        edges(adjacency.edges.values<std::int32_t>().data()) {}
};

// fn(node, first, last) for all nodes, whose row has the places [first, last); one thread walks a
// row, in order. `width` is how many elements fn reads at a place.
template <class F>
void for_each_node(const Adjacency& graph, const EdgeRows& rows, std::int64_t width, F fn) {
  const std::int64_t degree = graph.nodes() == 0 ? 1 : 1 + graph.edges() / graph.nodes();
  for_each_row(graph.nodes(), degree * width,
               [=](std::int64_t node) { fn(node, rows.offsets[node], rows.offsets[node + 1]); });
}

// y_v = Σ w x_u over the edges between v and u of an adjacency: x (N, F), weights (E, H) or empty.
Array gather(const Adjacency& graph, const SparseRows& adjacency, const Array& x,
             const Array& weights) {
  Array y(x.shape(), x.dtype());
  const std::int64_t F = x.dim(1), H = weights.empty() ? 1 : weights.dim(1), D = F / H;
  dispatch(x.dtype(), [&, rows = EdgeRows(adjacency)]<class T>() {
    const T* in = x.values<T>().data();
    const T* weight = weights.empty() ? nullptr : weights.values<T>().data();
    T* out = y.mutable_values<T>().data();
    const auto add = [=](std::int64_t place, T* sums) {
      for (std::int64_t h = 0; h < H; ++h) {
        const Simd<T> w(weight ? weight[rows.edges[place] * H + h] : T(1));
        T* to = sums + h * D;
        map_span(D, {to, in + rows.neighbours[place] * F + h * D}, to,
                 [w](auto sum, auto v) { return fma(w, v, sum); });
      }
    };
    for_each_node(graph, rows, F, [=](std::int64_t node, std::int64_t first, std::int64_t last) {
      std::fill_n(out + node * F, F, T(0));
      add_rows(first, last, F, out + node * F, add);
    });
  });
  return y;
}

// (E, H), a_j · b_i for the edges from i to j.
Array products(const Adjacency& graph, const Array& a, const Array& b, std::int64_t H) {
  Array y({graph.edges(), H}, a.dtype());
  const std::int64_t F = a.dim(1), D = F / H;
  dispatch(a.dtype(), [&, rows = EdgeRows(graph.incoming())]<class T>() {
    const T *at_target = a.values<T>().data(), *at_source = b.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_node(graph, rows, F, [=](std::int64_t node, std::int64_t first, std::int64_t last) {
      for (std::int64_t place = first; place < last; ++place)
        for (std::int64_t h = 0; h < H; ++h)
          out[place * H + h] = dot_span(D, at_target + node * F + h * D,
                                        at_source + rows.neighbours[place] * F + h * D);
    });
  });
  return y;
}

void check_nodes(const char* op, const Adjacency& graph, const Tensor& x, std::int64_t heads) {
  check_floating(op, x);
  require(x.rank() == 2 && x.dim(0) == graph.nodes() && heads >= 1 && x.dim(1) % heads == 0,
          "{}: {} on a graph of {} nodes, with {} heads", op, to_string(x.shape()), graph.nodes(),
          heads);
}

}  // namespace

Tensor neighbour_sum(const Adjacency& graph, const Tensor& x, const Tensor& weights) {
  const bool weighted = !weights.value().empty();
  if (weighted) {
    check_same_dtype("neighbour_sum", x, weights);
    require(weights.rank() == 2 && weights.dim(0) == graph.edges(),
            "neighbour_sum: weights {} on a graph of {} edges", to_string(weights.shape()),
            graph.edges());
  }
  const std::int64_t H = weighted ? weights.dim(1) : 1;
  check_nodes("neighbour_sum", graph, x, H);
  const Array y = gather(graph, graph.incoming(), x.value(), weights.value());
  if (!weighted)
    return record("neighbour_sum", y, {x}, [graph](const Array& gradient, InputGradients& into) {
      into.add(0, gather(graph, graph.outgoing(), gradient, {}));
    });
  return record("neighbour_sum", y, {x, weights},
                [graph, x = x.value(), weights = weights.value(), H](const Array& gradient,
                                                                     InputGradients& into) {
                  if (into.wanted(0))
                    into.add(0, gather(graph, graph.outgoing(), gradient, weights));
                  if (into.wanted(1)) into.add(1, products(graph, gradient, x, H));
                });
}

Tensor edge_products(const Adjacency& graph, const Tensor& a, const Tensor& b, std::int64_t heads) {
  check_same_shape("edge_products", a, b);
  check_nodes("edge_products", graph, a, heads);
  return record("edge_products", products(graph, a.value(), b.value(), heads), {a, b},
                [graph, a = a.value(), b = b.value()](const Array& gradient, InputGradients& into) {
                  if (into.wanted(0)) into.add(0, gather(graph, graph.incoming(), b, gradient));
                  if (into.wanted(1)) into.add(1, gather(graph, graph.outgoing(), a, gradient));
                });
}

}  // namespace tapestry
