#include "data/graphs/synthetic_graphs.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "autograd/check.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

// Numbers of nodes. With fewer, message passing cannot distinguish some grids from cliques.
constexpr std::int64_t fewest = 12, most = 1000;
constexpr std::int64_t max_tree_degree = 4;
constexpr std::int64_t max_prompt_nodes = 100'000;

using Edges = std::vector<Edge>;

std::int32_t node(std::int64_t number) { return static_cast<std::int32_t>(number); }

// The functions of all kinds join the first `n` nodes, and return how many of these they used.

std::int64_t ring(std::int64_t n, Random&, Edges& edges) {
  for (std::int64_t i = 0; i < n; ++i) edges.push_back({node(i), node((i + 1) % n)});
  return n;
}

std::int64_t star(std::int64_t n, Random&, Edges& edges) {
  for (std::int64_t i = 1; i < n; ++i) edges.push_back({0, node(i)});
  return n;
}

std::int64_t tree(std::int64_t n, Random& random, Edges& edges) {
  std::vector<std::int64_t> degrees(n);
  for (std::int64_t i = 1; i < n; ++i) {
    std::int64_t parent = random.below(i);
    while (degrees[parent] == max_tree_degree) parent = random.below(i);
    ++degrees[parent];
    ++degrees[i];
    edges.push_back({node(parent), node(i)});
  }
  return n;
}

std::int64_t grid(std::int64_t n, Random& random, Edges& edges) {
  const std::int64_t rows = 2 + random.below(2), columns = n / rows;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    if ((i + 1) % columns != 0) edges.push_back({node(i), node(i + 1)});
    if (i + columns < rows * columns) edges.push_back({node(i), node(i + columns)});
  }
  return rows * columns;
}

std::int64_t cliques(std::int64_t n, Random&, Edges& edges) {
  const std::int64_t half = n / 2;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i + 1; j < n; ++j)
      if ((i < half) == (j < half)) edges.push_back({node(i), node(j)});
  edges.push_back({0, node(half)});
  return n;
}

struct Kind {
  const char* name;
  std::int64_t (*join)(std::int64_t n, Random& random, Edges& edges);
};
constexpr Kind kinds[] = {
    {"ring", ring}, {"star", star}, {"tree", tree}, {"grid", grid}, {"cliques", cliques}};

void hang_whiskers(std::int64_t first, std::int64_t n, Random& random, Edges& edges) {
  for (std::int64_t i = first; i < n; ++i) edges.push_back({node(random.below(first)), node(i)});
}

void shuffle_nodes(std::int64_t n, Random& random, Edges& edges) {
  std::vector<std::int32_t> names(n);
  std::iota(names.begin(), names.end(), 0);
  random.shuffle(names);
  for (auto& [from, to] : edges) {
    from = names[from];
    to = names[to];
  }
}

// Returns a hash that is the same for isomorphic graphs: the sum of the nodes' colors after three
// rounds of refinement by the colors of their neighbors (Weisfeiler & Leman 1968).
std::uint64_t structure(const Adjacency& graph) {
  std::vector<std::uint64_t> colors(graph.nodes(), 1);
  const Edges edges = graph.list();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::uint64_t> next = colors;
    for (const auto& [from, to] : edges) next[to] += mix(colors[from]);
    std::ranges::transform(next, colors.begin(), mix);
  }
  return std::accumulate(colors.begin(), colors.end(), std::uint64_t{0});
}

SyntheticGraphs::Drawn draw_one(const SyntheticGraphOptions& options, Random& random) {
  const auto label = static_cast<std::int32_t>(random.below(std::ssize(kinds)));
  const std::int64_t n =
      options.least_nodes + random.below(options.most_nodes - options.least_nodes + 1);
  // A tree has leaves already; more could exceed its limit of neighbors.
  const std::int64_t whiskers = kinds[label].join == tree ? 0 : random.below(n / 4 + 1);
  Edges edges;
  const std::int64_t used = kinds[label].join(n - whiskers, random, edges);
  hang_whiskers(used, n, random, edges);
  shuffle_nodes(n, random, edges);
  return {Adjacency::undirected(n, std::move(edges)), label};
}

}  // namespace

SyntheticGraphs::SyntheticGraphs(const SyntheticGraphOptions& options) : options_(options) {
  require(fewest <= options.least_nodes && options.least_nodes <= options.most_nodes &&
              options.most_nodes <= most && options.examples >= 1,
          "SyntheticGraphs: {} graphs of {} to {} nodes; expected at least one graph of 12 to 1000 "
          "nodes",
          options.examples, options.least_nodes, options.most_nodes);
}

const std::vector<std::string>& SyntheticGraphs::classes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Kind& kind : kinds) all.emplace_back(kind.name);
    return all;
  }();
  return names;
}

// Returns the first graph drawn that belongs to this split.
SyntheticGraphs::Drawn SyntheticGraphs::draw(std::int64_t example) const {
  require_example("SyntheticGraphs", example);
  Random random(options_.seed, Stream::data, static_cast<std::uint64_t>(example));
  while (true) {
    Drawn drawn = draw_one(options_, random);
    if (split_of(structure(drawn.graph)) == options_.split) return drawn;
  }
}

Batch SyntheticGraphs::batch(std::span<const std::int64_t> examples) const {
  if (is_dry_run()) return shapes_of_batch(examples);
  std::vector<Adjacency> graphs;
  std::vector<std::int32_t> labels, first_nodes{0};
  for (const std::int64_t example : examples) {
    Drawn drawn = draw(example);
    first_nodes.push_back(first_nodes.back() + node(drawn.graph.nodes()));
    labels.push_back(drawn.label);
    graphs.push_back(std::move(drawn.graph));
  }
  const std::int64_t G = std::ssize(labels);
  return {.inputs = Array::full({first_nodes.back(), 1}, 1),
          .targets = Array::of(labels, {G}),
          .count = static_cast<double>(G),
          .auxiliary = GraphPart{.adjacency = Adjacency::join(graphs),
                                 .first_nodes = Array::of(first_nodes, {G + 1})}};
}

// Returns a batch of a dry run, whose graphs have the mean size of those that are drawn.
Batch SyntheticGraphs::shapes_of_batch(std::span<const std::int64_t> examples) const {
  const std::span<const std::int64_t> drawn = examples_to_make(examples);
  const std::int64_t G = std::ssize(examples);
  std::int64_t nodes = 0, edges = 0;
  for (const std::int64_t example : drawn) {
    const DryRun none(false);  // the edges are needed to generate it again
    const Adjacency graph = draw(example).graph;
    nodes += graph.nodes();
    edges += graph.edges();
  }
  const auto of_all = [&](std::int64_t count) { return count * G / std::ssize(drawn); };
  return {.inputs = Array({of_all(nodes), 1}),
          .targets = Array({G}, DType::int32),
          .count = static_cast<double>(G),
          .auxiliary = GraphPart{.adjacency = Adjacency::unfilled(of_all(nodes), of_all(edges)),
                                 .first_nodes = Array({G + 1}, DType::int32)}};
}

std::string edges_text(const Adjacency& graph) {
  std::string text;
  for (const auto& [from, to] : graph.list())
    if (from <= to) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", from, to);
  return text;
}

Adjacency parse_edges(std::string_view text) {
  Edges edges;
  std::int64_t nodes = 0;
  std::istringstream stream{std::string(text)};
  for (std::string word; stream >> word;) {
    const std::vector<std::string_view> ends = split(word, '-');
    const Edge edge{parse_number<std::int32_t>(ends.front()).value_or(-1),
                    ends.size() == 2 ? parse_number<std::int32_t>(ends[1]).value_or(-1) : -1};
    expect_input(edge.from >= 0 && edge.to >= 0 && std::max(edge.from, edge.to) < max_prompt_nodes,
                 "edge '{}': expected two nodes from 0 to {}, such as 0-1", printable(word),
                 max_prompt_nodes - 1);
    edges.push_back(edge);
    nodes = std::max<std::int64_t>(nodes, std::max(edge.from, edge.to) + 1);
  }
  expect_input(!edges.empty(), "graph '{}': no edges; expected edges such as '0-1 1-2 0-2'",
               printable(text));
  return Adjacency::undirected(nodes, std::move(edges));
}

}  // namespace tapestry
