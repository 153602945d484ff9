#pragma once

#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// The normal distribution of the rows of a table, N(mean, Σ), by the eigenvectors of Σ (Pearson
// 1901). All float64.
struct PrincipalComponents {
  Array mean;                     // (Z)
  Array axes;                     // (Z, Z), a unit vector a row, that of the largest variance first
  std::vector<double> variances;  // along each axis
  Array factor;                   // (Z, Z), axes · standard deviation: ε · factor ~ N(0, Σ)
};

// Of x (N, Z), floating, N at least 1. An axis points where its largest entry is positive.
PrincipalComponents principal_components(const Array& x);

// (N, count): x less the mean, along the first `count` axes, float32.
Array project(const PrincipalComponents& components, const Array& x, std::int64_t count);

}  // namespace tapestry
