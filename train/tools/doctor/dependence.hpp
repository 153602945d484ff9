#pragma once

#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

// How alike each two of n examples are, (n · n), row by row: by how often they hold each token, or
// by their numbers, each scaled to deviations (Gaussian kernel, as wide as the examples are apart).
std::vector<double> likeness(const std::vector<Array>& examples);

// How well the targets of some examples fit their inputs, by the Hilbert-Schmidt independence
// criterion of both likenesses (Gretton et al. 2005, "Measuring Statistical Dependence with
// Hilbert-Schmidt Norms"): as they are paired, each input with the target so many examples behind
// or before it (in a circle), and in random pairings. What order a file has shows in all of them.
struct Fit {
  static constexpr int farthest = 20, pairings = 200;

  double given = 0;
  std::vector<double> shifted = std::vector<double>(2 * farthest);  // by 1, -1, 2, -2, …
  std::vector<double> random = std::vector<double>(pairings);
  double variety = 0;  // how much the targets differ among each other

  Fit& operator+=(const Fit& other);      // of other examples
  double deviations(double value) const;  // from the mean of the random pairings
  double deviations() const { return deviations(given); }
  int best_shift() const;
  double shifted_by(int shift) const;  // in deviations
};

Fit fit(std::vector<double> inputs, std::vector<double> targets, std::uint64_t seed);

}  // namespace tapestry
