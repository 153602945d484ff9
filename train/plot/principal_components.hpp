#pragma once

#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// The normal distribution N(mean, Σ) of the rows of a table, and the eigenvectors of Σ (Pearson
// 1901). All arrays are float64.
struct PrincipalComponents {
  Array mean;  // (Z)
  Array axes;  // (Z, Z), one unit vector per row, in descending order of variance
  std::vector<double> variances;  // along each axis
  Array factor;                   // (Z, Z), axes · standard deviation: ε · factor ~ N(0, Σ)
};

// Returns the components of x (N, Z), floating. The entry of the largest magnitude of each axis is
// positive. Throws std::invalid_argument for another rank and for N = 0, and as linear_algebra()
// does.
PrincipalComponents principal_components(const Array& x);

// Returns x minus the mean along the first `count` axes: (N, Z) -> (N, count) float32.
Array project(const PrincipalComponents& components, const Array& x, std::int64_t count);

}  // namespace tapestry
