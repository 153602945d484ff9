#pragma once

#include <cstdint>
#include <span>
#include <vector>

// What can be said of a figure that was measured several times, as by runs that differ in their
// seed.
namespace tapestry {

// Returns the median; of an even number of values the upper of the two in the middle. Throws
// std::invalid_argument if there are none.
double median_of(std::vector<double> values);

// The mean, and the standard deviation of a single run, √(Σ (x - mean)² / (n - 1)), 0 of one run.
struct Estimate {
  double mean = 0, deviation = 0;
  std::int64_t n = 0;
};
Estimate estimate_of(std::span<const double> values);  // of at least one

// value ± margin, as 95 in 100 such intervals hold the mean over all seeds: of figures that are
// distributed normally, and of others nearly.
struct Confidence {
  double value = 0, margin = 0;
  double degrees = 0;  // of freedom of Student's t
};

// Of a mean of n >= 2: Student 1908.
Confidence confidence_of(const Estimate& estimate);

// How far the mean of `other` is above that of `first`, by n >= 2 runs of each, drawn apart:
// Welch 1947, degrees of freedom by Satterthwaite 1946.
Confidence welch_difference(const Estimate& first, const Estimate& other);

// The same by pairs, as of equal seeds: other[i] belongs to first[i]; at least two.
Confidence paired_difference(std::span<const double> first, std::span<const double> other);

// The t within which Student's T lies with this probability, |T| <= t; degrees > 0.
double student_t(double probability, double degrees);

}  // namespace tapestry
