#include "train/tools/doctor/graph_reading.hpp"

#include <algorithm>

#include "data/text/pairs.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

std::span<const std::int32_t> row(const SparseRows& rows, std::int64_t v) {
  const auto offsets = rows.offsets.values<std::int32_t>();
  return rows.neighbours.values<std::int32_t>().subspan(offsets[v], offsets[v + 1] - offsets[v]);
}

// The columns of a node's features that are not zero.
void add_columns(Tokens& tokens, const Batch& one, const GraphPart& part, std::int64_t v) {
  if (part.features) {
    const auto columns = row(part.features->incoming(), v);
    tokens.insert(tokens.end(), columns.begin(), columns.end());
    return;
  }
  const std::int64_t width = one.inputs.dim(1);
  const auto features = one.inputs.values<float>().subspan(v * width, width);
  for (std::int64_t f = 0; f < width; ++f)
    if (features[f] != 0) tokens.push_back(static_cast<std::int32_t>(f));
}

// Whose target is asked for.
std::int64_t asked_node(const Batch& one) {
  const auto targets = one.targets.values<std::int32_t>();
  const auto asked =
      std::ranges::find_if(targets, [](auto label) { return label != ignored_target; });
  return asked - targets.begin();
}

Tokens read_node(const Batch& one, const GraphPart& part) {
  Tokens tokens;
  const std::int64_t node = asked_node(one);
  add_columns(tokens, one, part, node);
  for (const std::int32_t neighbour : row(part.adjacency.incoming(), node))
    add_columns(tokens, one, part, neighbour);
  return tokens;
}

Tokens read_graph(const Adjacency& graph) {
  constexpr std::int64_t degrees = 1024;  // those above count as the last
  const auto degree = [&](std::int64_t v) {
    return static_cast<std::int32_t>(std::min(std::ssize(row(graph.incoming(), v)), degrees - 1));
  };
  Tokens tokens;
  for (std::int64_t v = 0; v < graph.nodes(); ++v) tokens.push_back(degree(v));
  for (const Edge& edge : graph.list())
    tokens.push_back(degrees * (1 + degree(edge.from)) + degree(edge.to));
  return tokens;
}

}  // namespace

Array graph_reading(const Batch& one, const GraphPart& part) {
  const Tokens tokens =
      part.first_nodes.empty() ? read_node(one, part) : read_graph(part.adjacency);
  return Array::of(tokens, {std::ssize(tokens)});
}

Array reading_of(const Batch& one) {
  if (const auto* graph = one.find<GraphPart>()) return graph_reading(one, *graph);
  const auto* source = one.find<SourceTokens>();
  return source ? source->tokens : one.inputs;
}

}  // namespace tapestry
