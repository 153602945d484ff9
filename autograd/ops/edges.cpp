#include "autograd/ops/edges.hpp"

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Pointers to what stands at the places of an adjacency, for kernels.
struct EdgeRows {
  const std::int32_t *neighbours, *edges;
  explicit EdgeRows(const SparseRows& adjacency)
      : neighbours(adjacency.neighbours.values<std::int32_t>().data()),
        edges(adjacency.edges.values<std::int32_t>().data()) {}
};

// fn(node, first, last) for all nodes, whose row has the places [first, last); one thread walks a
// row, in order. `width` is how many elements fn reads at a place.
template <class F>
void for_each_node(const SparseRows& adjacency, std::int64_t width, F fn) {
  const std::int64_t nodes = adjacency.offsets.size() - 1;
  const std::int64_t degree = nodes == 0 ? 1 : 1 + adjacency.edges.size() / nodes;
  const std::int32_t* offsets = adjacency.offsets.values<std::int32_t>().data();
  for_each_row(nodes, degree * width,
               [=](std::int64_t node) { fn(node, offsets[node], offsets[node + 1]); });
}

// The sum of add(place, sum) over [first, last), which returns the sum and a term, in a register.
// More terms than a run are the sum of their halves.
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

// y_v = Σ w x_u over the edges between v and u of an adjacency, whose rows are those of y: x (M, F)
// -> (N, F), weights (E, H) or empty.
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
            return fma(w, load(in + rows.neighbours[place] * F + column), sum);
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

// (E, H), a_j · b_i for the edges from i to j.
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
                                            at_source + rows.neighbours[place] * F + h * D);
        });
  });
  return y;
}

void check_nodes(const char* op, std::int64_t nodes, const Tensor& x, std::int64_t heads) {
  check_floating(op, x);
  require(x.rank() == 2 && x.dim(0) == nodes && heads >= 1 && x.dim(1) % heads == 0,
          "{}: {} on a graph of {} nodes, with {} heads", op, to_string(x.shape()), nodes, heads);
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
  check_nodes("neighbour_sum", graph.sources(), x, H);
  const Array y = gather(graph.incoming(), x.value(), weights.value());
  if (!weighted)
    return record("neighbour_sum", y, {x}, [graph](const Array& gradient, InputGradients& into) {
      into.add(0, gather(graph.outgoing(), gradient, {}));
    });
  return record("neighbour_sum", y, {x, weights},
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

}  // namespace tapestry
