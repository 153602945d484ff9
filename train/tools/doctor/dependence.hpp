#pragma once

#include <vector>

#include "data/graphs/node_graph.hpp"

namespace tapestry {

// Returns what a graph network's first layers read of a batch of one example, as tokens (int32): of
// a node, the columns of its and its neighbors' features that are not zero; of a graph, the degrees
// of its nodes and of both ends of each edge (Shervashidze et al. 2011, "Weisfeiler-Lehman Graph
// Kernels", to height 1).
Array graph_reading(const Batch& one, const GraphPart& part);

// Returns the part of a batch of one example that the model reads: inputs, source or graph.
Array reading_of(const Batch& one);

// Returns one row for each of n examples, (n, D) float32: their numbers, or how often each token
// occurs, tokens counted modulo 1024.
Array rows_of(const std::vector<Array>& examples);

// Subtracts the mean of each column and divides by its deviation; limits values to ±5.
void standardize(Array& rows);

// Returns how similar each two of n examples are, (n, n) float64: the product of their token
// counts, or a Gaussian kernel of their standardized numbers, as wide as their mean distance.
Array similarities(const std::vector<Array>& examples);

// How strongly targets depend on inputs: the Hilbert-Schmidt independence criterion of both
// similarities (Gretton et al. 2005, "Measuring Statistical Dependence with Hilbert-Schmidt
// Norms"), of the pairs as given and of random pairs.
struct Dependence {
  static constexpr int pairings = 200;

  double given = 0;
  std::vector<double> random = std::vector<double>(pairings);
  double variety = 0;  // how much the targets differ from each other

  Dependence& operator+=(const Dependence& other);  // adds the dependence of other examples
  double deviations() const;  // how far `given` is above random pairs, in their deviations
};

// `inputs` and `targets`: similarities of the same examples, which are centered in place.
Dependence dependence(Array inputs, Array targets, std::uint64_t seed);

}  // namespace tapestry
