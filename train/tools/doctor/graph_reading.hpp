#pragma once

#include "data/graphs/node_graph.hpp"

namespace tapestry {

// What a graph network's first steps of messages read of a batch of one example, as tokens (int32)
// that a bag of them can be compared by: of a node, the columns of its and its neighbours' features
// that are not zero; of a graph, its nodes' degrees and those at both ends of each edge
// (Shervashidze et al. 2011, "Weisfeiler-Lehman Graph Kernels", to height 1).
Array graph_reading(const Batch& one, const GraphPart& part);

// What of a batch of one example the model reads, apart from what it has to say.
Array reading_of(const Batch& one);

}  // namespace tapestry
