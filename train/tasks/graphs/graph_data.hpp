#pragma once

#include <memory>

#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// The keys of graphs: drawn ones, or one that is built in or from data.path.
namespace key {

enum class GraphKind { drawn, karate, citations };
inline const Choice<GraphKind> graph_kind{
    "data.kind",
    GraphKind::drawn,
    "graphs to classify, or one graph's nodes: a club's, or cited papers",
    {{"drawn", GraphKind::drawn},
     {"karate", GraphKind::karate},
     {"citations", GraphKind::citations}}};
inline const Condition of_drawn = graph_kind.is(GraphKind::drawn),
                       of_citations = graph_kind.is(GraphKind::citations);
inline const Key<std::int64_t> synthetic_graphs{
    "data.examples", 100'000, "graphs to train on", {.low = 1, .high = 1e9, .used_if = {of_drawn}}};
inline const Key<std::int64_t> synthetic_validation{"data.held_back",
                                                    1000,
                                                    "graphs to validate on, unlike any trained on",
                                                    {.low = 1, .high = 1e6, .used_if = {of_drawn}}};
inline const Key<std::int64_t> least_nodes{
    "data.least_nodes", 12, "of a drawn graph", {.low = 12, .high = 1000, .used_if = {of_drawn}}};
inline const Key<std::int64_t> most_nodes{
    "data.most_nodes", 24, "of a drawn graph", {.low = 12, .high = 1000, .used_if = {of_drawn}}};
inline const Key<std::vector<std::int64_t>> labelled{
    "data.labelled",
    {1, 34},
    "members of the club whose side is known",
    {.low = 1, .high = 34, .used_if = {graph_kind.is(GraphKind::karate)}}};
inline const Key<std::int64_t> training_nodes{"data.training_nodes",
                                              140,
                                              "the first lines of the content file",
                                              {.low = 1, .high = 1e9, .used_if = {of_citations}}};
inline const Key<std::int64_t> validation_nodes{"data.validation_nodes",
                                                500,
                                                "the lines after these",
                                                {.low = 1, .high = 1e9, .used_if = {of_citations}}};
inline const Key<std::int64_t> test_nodes{
    "data.test_nodes", 1000, "the last lines", {.low = 1, .high = 1e9, .used_if = {of_citations}}};

}  // namespace key

std::vector<KeyInfo> graph_keys();

// What is to be learnt: nodes of one graph, or graphs.
struct GraphData {
  std::int64_t inputs = 0;
  std::vector<std::string> classes{};
  std::unique_ptr<Dataset> training{}, validation{}, test{};
  std::shared_ptr<const NodeGraph> whole{};  // of nodes, else null
  const SyntheticGraphs* drawn = nullptr;    // of graphs: the validation data
};

// InputError names file and line, or key.
GraphData load_graphs(const Config& config);

}  // namespace tapestry
