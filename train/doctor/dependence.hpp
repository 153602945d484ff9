#pragma once

#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

// How alike each two of n examples are, (n · n), row by row: by products of their numbers, or of
// how often they hold each token.
std::vector<double> likeness(const std::vector<Array>& examples);

// Whether two views of the same n examples know anything of each other: the Hilbert-Schmidt
// independence criterion of both likenesses (Gretton et al. 2005, "Measuring Statistical Dependence
// with Hilbert-Schmidt Norms"), as deviations from its mean over random pairings of the examples.
double dependence(std::vector<double> one, std::vector<double> other, std::uint64_t seed);

}  // namespace tapestry
