#pragma once

#include <span>

#include "autograd/adjacency.hpp"

namespace tapestry {

// Places (N, 2) float32 in [0, 1] of a graph's nodes, so that joined ones lie near one another and
// others do not: springs along the edges, and a force that keeps apart what is nearer than two
// ideal distances (Fruchterman & Reingold 1991, with its grid). The same graph, the same places.
Array lay_out(std::int64_t nodes, std::span<const Edge> edges);

}  // namespace tapestry
