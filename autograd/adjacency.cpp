#include "autograd/adjacency.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"

namespace tapestry {
namespace {

Array ints(std::int64_t count) { return Array::zeros({count}, DType::int32); }

// Returns the rows of all nodes, from `order`, the numbers of the edges sorted by the node `row` at
// one end of each; `end` is the other end.
SparseRows adjacency(std::int64_t nodes, const std::vector<Edge>& list,
                     const std::vector<std::int32_t>& order, std::int32_t Edge::*row,
                     std::int32_t Edge::*end) {
  SparseRows result{.offsets = ints(nodes + 1),
                    .neighbors = ints(std::ssize(list)),
                    .edges = ints(std::ssize(list))};
  const auto offsets = result.offsets.mutable_values<std::int32_t>();
  const auto neighbors = result.neighbors.mutable_values<std::int32_t>();
  std::ranges::copy(order, result.edges.mutable_values<std::int32_t>().begin());
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Edge& edge = list[order[place]];
    neighbors[place] = edge.*end;
    ++offsets[(edge.*row) + 1];
  }
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return result;
}

}  // namespace

struct Adjacency::Looped {
  std::mutex mutex{};
  std::optional<Adjacency> graph{};
};

Adjacency::Adjacency(std::int64_t sources, std::int64_t nodes, std::vector<Edge> edges)
    : sources_(sources), nodes_(nodes), looped_(std::make_shared<Looped>()) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  require(nodes >= 0 && nodes < most && sources >= 0 && sources < most && std::ssize(edges) < most,
          "graph: {} nodes, {} sources and {} edges; expected 0 to {} of each", nodes, sources,
          edges.size(), most - 1);
  for (const auto& [from, to] : edges)
    require(from >= 0 && from < sources && to >= 0 && to < nodes,
            "graph: an edge from node {} to node {}; expected a source in [0, {}) and a target in "
            "[0, {})",
            from, to, sources, nodes);
  std::ranges::sort(edges, {}, [](const Edge& edge) { return std::pair(edge.to, edge.from); });
  edges.erase(std::ranges::unique(edges).begin(), edges.end());
  std::vector<std::int32_t> order(edges.size());
  std::iota(order.begin(), order.end(), 0);
  incoming_ = adjacency(nodes, edges, order, &Edge::to, &Edge::from);
  std::ranges::stable_sort(order, {}, [&](std::int32_t edge) { return edges[edge].from; });
  outgoing_ = adjacency(sources, edges, order, &Edge::from, &Edge::to);
}

Adjacency Adjacency::undirected(std::int64_t nodes, std::vector<Edge> edges) {
  const std::size_t count = edges.size();
  for (std::size_t i = 0; i < count; ++i) edges.push_back({edges[i].to, edges[i].from});
  return Adjacency(nodes, std::move(edges));
}

Adjacency Adjacency::unfilled(std::int64_t nodes, std::int64_t edges) {
  Adjacency graph;
  graph.sources_ = graph.nodes_ = nodes;
  for (SparseRows* rows : {&graph.incoming_, &graph.outgoing_})
    *rows = {.offsets = ints(nodes + 1), .neighbors = ints(edges), .edges = ints(edges)};
  return graph;
}

Adjacency Adjacency::join(const std::vector<Adjacency>& graphs) {
  std::int64_t sources = 0, nodes = 0;
  std::vector<Edge> edges;
  for (const Adjacency& graph : graphs) {
    const std::int32_t source = sources, node = nodes;
    for (const auto& [from, to] : graph.list()) edges.push_back({from + source, to + node});
    sources += graph.sources();
    nodes += graph.nodes();
  }
  return Adjacency(sources, nodes, std::move(edges));
}

Adjacency Adjacency::with_loops() const {
  require(sources_ == nodes_, "graph: loops of {} nodes with {} sources; expected as many", nodes_,
          sources_);
  const std::lock_guard lock(looped_->mutex);
  if (looped_->graph) return *looped_->graph;
  if (is_dry_run()) return unfilled(nodes_, edges() + nodes_);
  std::vector<Edge> all = list();
  for (std::int32_t node = 0; node < nodes_; ++node) all.push_back({node, node});
  return looped_->graph.emplace(nodes_, std::move(all));
}

std::vector<Edge> Adjacency::list() const {
  std::vector<Edge> edges;
  const auto offsets = incoming_.offsets.values<std::int32_t>();
  const auto sources = incoming_.neighbors.values<std::int32_t>();
  for (std::int32_t to = 0; to < nodes_; ++to)
    for (auto place = offsets[to]; place < offsets[to + 1]; ++place)
      edges.push_back({sources[place], to});
  return edges;
}

Array Adjacency::edge_targets() const {
  Array targets = ints(edges());
  const auto offsets = incoming_.offsets.values<std::int32_t>();
  const auto to = targets.mutable_values<std::int32_t>().begin();
  for (std::int32_t node = 0; node < nodes_; ++node)
    std::fill(to + offsets[node], to + offsets[node + 1], node);
  return targets;
}

SparseMatrix sparse_matrix(const Array& dense) {
  require(dense.rank() == 2, "sparse_matrix: shape {}; expected (N, F)", dense.shape());
  const std::int64_t N = dense.dim(0), F = dense.dim(1);
  return dispatch(dense.dtype(), [&]<class T>() {
    std::vector<Edge> edges;
    std::vector<T> values;
    const auto elements = dense.values<T>();
    for (std::int32_t n = 0; n < N; ++n)
      for (std::int32_t f = 0; f < F; ++f)
        if (const T value = elements[n * F + f]; value != 0) {
          edges.push_back({f, n});
          values.push_back(value);
        }
    return SparseMatrix{.entries = Adjacency(F, N, std::move(edges)),
                        .values = Array::of(values, {std::ssize(values), 1})};
  });
}

}  // namespace tapestry
