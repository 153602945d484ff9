#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "train/measure/statistics.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("compare");

using Values = std::vector<double>;

const Values first = {1.893, 1.887, 1.901, 1.890, 1.884}, other = {1.879, 1.885, 1.872},
             partners = {1.871, 1.869, 1.880, 1.866, 1.865};

// Figures of golden values are SciPy 1.17.1's.
bool is_near(double value, double golden) {
  return std::abs(value - golden) <= 1e-9 * std::abs(golden);
}

TEST_CASE("statistics: Student's t is that of the tables") {
  const std::pair<double, double> table[] = {{1, 12.706}, {2, 4.303},  {5, 2.571},
                                             {10, 2.228}, {30, 2.042}, {120, 1.980}};
  for (const auto& [degrees, t] : table) CHECK(std::abs(student_t(0.95, degrees) - t) < 5e-4);
  // scipy.stats.t.ppf
  CHECK(is_near(student_t(0.95, 1), 12.706204736175));
  CHECK(is_near(student_t(0.95, 1.5), 6.016663104428));
  CHECK(is_near(student_t(0.95, 2.941), 3.218870677813));
  CHECK(is_near(student_t(0.95, 1998), 1.961152014837));
  CHECK(is_near(student_t(0.99, 2), 9.924843200918));
  CHECK(is_near(student_t(0.5, 1), 1));  // of Cauchy's distribution: tan(π / 4)
  CHECK_THROWS_AS(student_t(1, 3), std::invalid_argument);
  CHECK_THROWS_AS(student_t(0.95, 0), std::invalid_argument);
}

TEST_CASE("statistics: p-values are those of Student's t") {
  for (const double degrees : {1.0, 4.0, 30.0})
    for (const double probability : {0.5, 0.95, 0.999})
      CHECK(is_near(student_p(-student_t(probability, degrees), degrees), 1 - probability));
  CHECK(student_p(0, 3) == 1);
  CHECK(is_near(student_p(1, 1), 0.5));  // of Cauchy's distribution
  CHECK_THROWS_AS(student_p(1, 0), std::invalid_argument);
}

TEST_CASE("bug: statistics: differences that are equal within rounding had a spread") {
  // 0.66 - 0.32, 0.7 - 0.36 and 0.78 - 0.44 are 0.34, but differ in the last bits.
  const Values before = {0.32, 0.36, 0.44}, after = {0.66, 0.7, 0.78};
  CHECK(after[0] - before[0] != after[1] - before[1]);
  const Confidence paired = paired_difference(before, after);
  CHECK(paired.margin == 0);
  CHECK(is_near(paired.value, 0.34));
  CHECK(paired_p(before, after) == 1);
  // Values that rounding alone distinguishes, of one group, of two, and of pairs.
  const Values tenths = {0.1 + 0.2, 0.3, 0.3}, same = {0.3, 0.3, 0.1 + 0.2};
  CHECK(estimate_of(tenths).deviation == 0);
  const Confidence of_pairs = paired_difference(tenths, same),
                   welch = welch_difference(estimate_of(tenths), estimate_of(same));
  for (const Confidence& difference : {of_pairs, welch}) {
    CHECK(difference.value == 0);
    CHECK(difference.margin == 0);
  }
  // float32 distinguishes them: a spread.
  CHECK(estimate_of(Values{0.3, 0.3 * (1 + 1e-7)}).deviation > 0);
}

TEST_CASE("statistics: the p-value of an interval, and how few seeds are stated") {
  CHECK(
      is_near(p_value({.value = 1, .margin = student_t(0.95, 3), .degrees = 3}), student_p(1, 3)));
  CHECK(p_value({.value = 1}) == 1);
  CHECK(undecided(2, 0.1416) == "not decided with 2 seeds (p = 0.14); --seeds 5");
}

TEST_CASE("statistics: Holm's method is that of a computation by hand") {
  // Sorted: 0.005 * 4 = 0.02, 0.01 * 3 = 0.03, 0.03 * 2 = 0.06, and 0.04 * 1, but not below 0.06.
  const std::vector<HolmTest> tests = holm(Values{0.01, 0.04, 0.03, 0.005});
  const double adjusted[] = {0.03, 0.06, 0.06, 0.02};
  const double levels[] = {0.05 / 3, 0.05, 0.05 / 2, 0.05 / 4};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(is_near(tests[i].adjusted_p, adjusted[i]));
    CHECK(is_near(tests[i].level, levels[i]));
    CHECK(tests[i].is_rejected == (adjusted[i] <= 0.05));
  }
  CHECK(holm({}).empty());
  CHECK(holm(Values{0.7}).front().adjusted_p == 0.7);
  CHECK(holm(Values{0.7, 0.9}).front().adjusted_p == 1);
}

TEST_CASE("statistics: mean, deviation of one run, and the interval of the mean") {
  const Estimate estimate = estimate_of(first);
  CHECK(estimate.n == 5);
  CHECK(is_near(estimate.mean, 1.891));
  CHECK(is_near(estimate.deviation, 0.006519202405202688));
  CHECK(is_near(confidence_of(estimate).margin, 0.008094658923543552));
  CHECK(confidence_of(estimate).degrees == 4);
  CHECK(is_near(confidence_of(estimate_of(other)).margin, 0.016162811241750674));
  CHECK(estimate_of(Values{3}).deviation == 0);
  CHECK_THROWS_AS(estimate_of({}), std::invalid_argument);
  CHECK_THROWS_AS(confidence_of(estimate_of(Values{3})), std::invalid_argument);
}

TEST_CASE("statistics: equal values do not deviate at all, whatever their sum is rounded to") {
  for (const double value : {0.1, 1.0 / 3, 1e-300, 1e300})
    for (const std::size_t n : {2, 3, 7, 10}) {
      const Estimate estimate = estimate_of(Values(n, value));
      CHECK(estimate.mean == value);
      CHECK(estimate.deviation == 0);
    }
}

TEST_CASE("statistics: Welch's test is that of SciPy") {
  const Confidence welch = welch_difference(estimate_of(first), estimate_of(other));
  CHECK(is_near(welch.value, -0.012333333333333307));
  CHECK(is_near(welch.degrees, 4.346573428408421));
  CHECK(is_near(welch.margin, 0.012797340473026206));
  const Confidence even = welch_difference(estimate_of(first), estimate_of(partners));
  CHECK(is_near(even.degrees, 7.939962476547819));
  CHECK(is_near(even.margin, 0.009131672954999448));

  // One of them without a spread: the other's degrees of freedom. Both: nothing to judge by.
  const Confidence half = welch_difference(estimate_of(Values(3, 2)), estimate_of(other));
  CHECK(is_near(half.degrees, 2));
  CHECK(is_near(half.margin, 0.016162811241750702));
  const Confidence none = welch_difference(estimate_of(Values(3, 2)), estimate_of(Values(4, 5)));
  CHECK(none.value == 3);
  CHECK(none.margin == 0);
  const Confidence huge = welch_difference({.mean = 0, .deviation = 1e200, .n = 3},
                                           {.mean = 0, .deviation = 1e-200, .n = 2});
  CHECK(is_near(huge.degrees, 2));
  CHECK_THROWS_AS(welch_difference(estimate_of(first), estimate_of(Values{1})),
                  std::invalid_argument);
}

TEST_CASE("statistics: pairs are compared by their differences") {
  const Confidence paired = paired_difference(first, partners);
  CHECK(is_near(paired.value, -0.0208));
  CHECK(is_near(paired.degrees, 4));
  CHECK(is_near(paired.margin, 0.0029644321650665537));
  CHECK_THROWS_AS(paired_difference(first, other), std::invalid_argument);
  CHECK_THROWS_AS(paired_difference(Values{1}, Values{2}), std::invalid_argument);
}

TEST_CASE("statistics: the median; of an even number of values the upper one in the middle") {
  CHECK(median_of({3}) == 3);
  CHECK(median_of({5, 1, 3}) == 3);
  CHECK(median_of({4, 1, 3, 2}) == 3);
  CHECK_THROWS_AS(median_of({}), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
