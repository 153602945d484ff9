#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Statistics of a metric that was measured several times, such as by runs with different seeds.
namespace tapestry {

// Returns the median; of an even number of values the upper of the two in the middle. Throws
// std::invalid_argument if there are none.
double median_of(std::vector<double> values);

// The mean and the standard deviation √(Σ (x - mean)² / (n - 1)); of one value, and of values that
// are equal within rounding, the deviation is 0.
struct Estimate {
  double mean = 0, deviation = 0;
  std::int64_t n = 0;
};
// Returns the estimate of some values. Throws std::invalid_argument if there are none.
Estimate estimate_of(std::span<const double> values);

// The confidence interval value ± margin of a mean. It assumes a normal distribution.
struct Confidence {
  double value = 0, margin = 0;
  double degrees = 0;  // degrees of freedom of Student's t
};

// Returns the interval that contains the mean of n >= 2 values with this probability (Student
// 1908). Throws std::invalid_argument for fewer values, and as student_t() does.
Confidence confidence_of(const Estimate& estimate, double probability = 0.95);

// The differences below are 0, and have no margin, if that is so within rounding.

// Returns the 95 % interval of the mean of `other` minus that of `first`, for n >= 2 independent
// values of each (Welch 1947; degrees of freedom of Satterthwaite 1946). Throws
// std::invalid_argument for fewer.
Confidence welch_difference(const Estimate& first, const Estimate& other);

// Returns the interval for at least two pairs, such as runs with equal seeds: other[i] belongs to
// first[i]. Throws std::invalid_argument for fewer, for different numbers of values, and as
// student_t() does.
Confidence paired_difference(std::span<const double> first, std::span<const double> other,
                             double probability = 0.95);

// Returns the t for which |T| <= t with this probability; T has Student's distribution with
// `degrees` degrees of freedom. Throws std::invalid_argument unless 0 < probability < 1 and degrees
// > 0.
double student_t(double probability, double degrees);

// Returns the probability that |T| > |t|, the p-value of a two-sided test. Throws
// std::invalid_argument if `degrees` is not above 0.
double student_p(double t, double degrees);

// Returns the p-value of the paired t-test; 1 for fewer than two pairs, and if their differences
// have no spread. Throws as paired_difference() does otherwise.
double paired_p(std::span<const double> first, std::span<const double> other);

// Returns the p-value of a difference with its 95 % interval; 1 without a margin.
double p_value(const Confidence& difference);

// The limits of an interval.
struct Interval {
  double low = 0, high = 0;
};
// Returns the 95 % interval of the probability of an event that occurred k times in n independent
// trials (Clopper and Pearson 1934). Throws std::invalid_argument unless 0 <= k <= n and n > 0.
Interval binomial_interval(std::int64_t k, std::int64_t n);

// The number of seeds below which a difference that is not significant is undecided: with two, a
// paired test needs a difference of 9 times the spread of the pairs.
inline constexpr std::int64_t enough_seeds = 5;
// Returns how that is stated: "not decided with 2 seeds (p = 0.14); --seeds 5".
std::string undecided(std::int64_t seeds, double p);

// A hypothesis among several that are tested together.
struct HolmTest {
  double adjusted_p = 1;  // p-value, corrected for the number of hypotheses
  double level = 0.05;    // significance level with which its p-value was compared
  bool is_rejected = false;
};
// Returns Holm's step-down test (1979) of hypotheses with these p-values, in their order: the
// probability of rejecting any true one is at most 0.05.
std::vector<HolmTest> holm(std::span<const double> p_values);

}  // namespace tapestry
