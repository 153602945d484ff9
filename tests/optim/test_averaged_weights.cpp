#include <doctest/doctest.h>

#include "optim/averaged_weights.hpp"
#include "tests/support/arrays.hpp"

namespace tapestry {
namespace {

TEST_CASE("averaged weights: a hand's computation, and the exchange") {
  Parameter parameter(Array::of(std::vector<double>{1, -2}, {2}), Role::weight);
  parameter.name = "w";
  AveragedWeights average({&parameter}, 0.5);
  const auto set = [&](double x, double y) {
    Array value = parameter.value();
    value.copy_from(Array::of(std::vector<double>{x, y}, {2}));
  };
  set(2, 0);
  average.follow(1);  // keeps (1 + 1) / (10 + 1)
  const double kept = 2.0 / 11;
  const std::vector<double> first = {kept * 1 + (1 - kept) * 2, kept * -2};
  check_close(average.arrays()[0].second, Array::of(first, {2}), 1e-15);
  set(4, 4);
  average.follow(1000);  // keeps 0.5
  const std::vector<double> second = {0.5 * first[0] + 2, 0.5 * first[1] + 2};
  check_close(average.arrays()[0].second, Array::of(second, {2}), 1e-15);

  average.exchange();
  check_close(parameter.value(), Array::of(second, {2}), 1e-15);
  CHECK(doubles(average.arrays()[0].second) == std::vector<double>{4, 4});
  average.exchange();
  CHECK(doubles(parameter.value()) == std::vector<double>{4, 4});
  CHECK(average.arrays()[0].first == "weights.w");
}

}  // namespace
}  // namespace tapestry
