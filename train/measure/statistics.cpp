#include "train/measure/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

constexpr double confidence = 0.95;
constexpr double significance = 0.05;
constexpr double rounding = 1e-12;  // of values that double operations computed, relative to them

double largest_of(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Returns 0 in place of a difference between values of this magnitude that rounding explains.
double beyond_rounding(double difference, double magnitude) {
  return std::abs(difference) <= rounding * magnitude ? 0 : difference;
}

// Returns I_x(a, b) for x <= (a + 1) / (a + b + 2) by the continued fraction 8.17.22 of the NIST
// Digital Library of Mathematical Functions, evaluated from its end.
double beta_below_its_mean(double x, double a, double b) {
  constexpr int terms = 1000;  // about √max(a, b) matter
  double fraction = 1;
  for (int m = terms; m >= 1; --m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1));
    fraction = 1 + odd / (1 + even / fraction);
  }
  const double log_beta = std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
  return std::exp(a * std::log(x) + b * std::log1p(-x) - log_beta) / (a * fraction);
}

// Returns the regularized incomplete beta function I_x(a, b), 0 < x < 1.
double incomplete_beta(double x, double a, double b) {
  if (x <= (a + 1) / (a + b + 2)) return beta_below_its_mean(x, a, b);
  return 1 - beta_below_its_mean(1 - x, b, a);
}

// Returns the x with I_x(a, b) = probability, by bisection.
double beta_quantile(double probability, double a, double b) {
  double low = 0, high = 1;
  for (int i = 0; i < 100; ++i) {
    const double x = (low + high) / 2;
    (incomplete_beta(x, a, b) < probability ? low : high) = x;
  }
  return high;
}

}  // namespace

double median_of(std::vector<double> values) {
  require(!values.empty(), "median_of: no values; expected at least one");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

Estimate estimate_of(std::span<const double> values) {
  require(!values.empty(), "estimate_of: no values; expected at least one");
  const auto n = static_cast<double>(values.size());
  // Computes with the differences from the first value: equal values have a deviation of exactly 0.
  double sum = 0, squares = 0;
  for (const double value : values) sum += value - values.front();
  const double mean = values.front() + sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = n > 1 ? std::sqrt(squares / (n - 1)) : 0;
  return {.mean = mean,
          .deviation = beyond_rounding(deviation, largest_of(values)),
          .n = std::ssize(values)};
}

Confidence confidence_of(const Estimate& estimate, double probability) {
  require(estimate.n > 1, "confidence_of: {} values; expected 2 or more", estimate.n);
  const auto n = static_cast<double>(estimate.n);
  return {.value = estimate.mean,
          .margin = student_t(probability, n - 1) * estimate.deviation / std::sqrt(n),
          .degrees = n - 1};
}

Confidence welch_difference(const Estimate& first, const Estimate& other) {
  require(first.n > 1 && other.n > 1,
          "welch_difference: {} and {} values; expected 2 or more of each", first.n, other.n);
  const auto n = static_cast<double>(first.n), m = static_cast<double>(other.n);
  const double error = first.deviation / std::sqrt(n);  // standard error of a mean
  // Of three numbers, because std::hypot of two needs glibc 2.35.
  const double both = std::hypot(error, other.deviation / std::sqrt(m), 0.0);
  const double share = both > 0 ? (error / both) * (error / both) : 0.5;
  const double degrees = 1 / (share * share / (n - 1) + (1 - share) * (1 - share) / (m - 1));
  const double magnitude = std::max(std::abs(first.mean), std::abs(other.mean));
  return {.value = beyond_rounding(other.mean - first.mean, magnitude),
          .margin = student_t(confidence, degrees) * both,
          .degrees = degrees};
}

Confidence paired_difference(std::span<const double> first, std::span<const double> other,
                             double probability) {
  require(first.size() == other.size(),
          "paired_difference: {} and {} values; expected equally many", first.size(), other.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < first.size(); ++i) differences.push_back(other[i] - first[i]);
  Estimate estimate = estimate_of(differences);
  const double magnitude = std::max(largest_of(first), largest_of(other));
  estimate.mean = beyond_rounding(estimate.mean, magnitude);
  estimate.deviation = beyond_rounding(estimate.deviation, magnitude);
  return confidence_of(estimate, probability);
}

// Returns the t with P(|T| > t) = I_x(degrees / 2, 1 / 2), x = degrees / (degrees + t²).
double student_t(double probability, double degrees) {
  require(probability > 0 && probability < 1 && degrees > 0,
          "student_t: probability {} and {} degrees of freedom; expected a probability between 0 "
          "and 1, and more than 0 degrees",
          probability, degrees);
  const double x = beta_quantile(1 - probability, degrees / 2, 0.5);
  return std::sqrt(degrees * (1 - x) / x);
}

double student_p(double t, double degrees) {
  require(degrees > 0, "student_p: {} degrees of freedom; expected more than 0", degrees);
  if (t == 0) return 1;
  const double x = degrees / (degrees + t * t);
  return x > 0 ? incomplete_beta(x, degrees / 2, 0.5) : 0;
}

double paired_p(std::span<const double> first, std::span<const double> other) {
  if (first.size() < 2) return 1;
  return p_value(paired_difference(first, other, confidence));
}

double p_value(const Confidence& difference) {
  if (!(difference.margin > 0)) return 1;
  const double error = difference.margin / student_t(confidence, difference.degrees);
  return student_p(difference.value / error, difference.degrees);
}

Interval binomial_interval(std::int64_t k, std::int64_t n) {
  require(0 <= k && k <= n && n > 0, "binomial_interval: {} of {}; expected 0 <= k <= n, n > 0", k,
          n);
  constexpr double tail = (1 - confidence) / 2;
  const auto found = static_cast<double>(k), others = static_cast<double>(n - k);
  return {.low = k == 0 ? 0 : beta_quantile(tail, found, others + 1),
          .high = k == n ? 1 : beta_quantile(1 - tail, found + 1, others)};
}

std::string undecided(std::int64_t seeds, double p) {
  return fmt::format("not decided with {} seeds (p = {:.2g}); --seeds {}", seeds, p, enough_seeds);
}

std::vector<HolmTest> holm(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<HolmTest> tests(p_values.size());
  double adjusted = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto left = static_cast<double>(order.size() - rank);
    adjusted = std::max(adjusted, std::min(1.0, left * p_values[order[rank]]));
    tests[order[rank]] = {.adjusted_p = adjusted,
                          .level = significance / left,
                          .is_rejected = adjusted <= significance};
  }
  return tests;
}

}  // namespace tapestry
