#pragma once

#include <vector>

#include "data/graphs/node_graph.hpp"

namespace tapestry {

// Returns the inputs of a graph network's first layers for a batch of one example, as tokens
// (int32). For a node: the columns of its and its neighbors' features that are not zero. For a
// graph: the degrees of its nodes and of both ends of each edge (Shervashidze et al. 2011,
// "Weisfeiler-Lehman Graph Kernels", to height 1).
Array graph_reading(const Batch& one, const GraphPart& part);

// Returns the inputs of a batch of one example: its inputs, source or graph.
Array reading_of(const Batch& one);

// Returns one row for each of n >= 1 examples, (n, D), float32: their first numbers, as many as the
// shortest example has, or the counts of their tokens modulo 1024.
Array rows_of(const std::vector<Array>& examples);

// Subtracts the mean of each column and divides by the column's deviation; limits values to ±5.
// Constant columns become 0.
void standardize(Array& rows);

// Returns the similarities of n examples, (n, n), float64: the inner products of their token
// counts, or a Gaussian kernel of their standardized numbers, whose width is the root mean square
// of their distances.
Array similarities(const std::vector<Array>& examples);

// The strength of the dependence of targets on inputs: the Hilbert-Schmidt independence criterion
// of both similarities (Gretton et al. 2005, "Measuring Statistical Dependence with Hilbert-Schmidt
// Norms"), of the pairs as given and of random pairs.
struct Dependence {
  static constexpr int pairings = 200;

  double given = 0;
  std::vector<double> random = std::vector<double>(pairings);
  double variety = 0;  // how much the targets differ from each other

  Dependence& operator+=(const Dependence& other);  // adds the dependence of other examples
  // Returns the z-score of `given` with respect to random pairs; 0 if these do not differ.
  double deviations() const;
};

// Returns the dependence. `inputs` and `targets` are similarities (n, n) of the same examples; both
// are centered in place. `seed` is that of the random pairs.
Dependence dependence(Array inputs, Array targets, std::uint64_t seed);

}  // namespace tapestry
