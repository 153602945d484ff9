#include "data/toys/friedman.hpp"

#include <cmath>
#include <numbers>

#include "autograd/random.hpp"
#include "data/toys/synthetic.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t columns = 10;

std::vector<double> row_of(std::uint64_t seed, std::uint64_t number) {
  Random random(seed, Stream::data, number);
  std::vector<double> x(columns);
  for (double& one : x) one = random.uniform();
  const double y = 10 * std::sin(std::numbers::pi * x[0] * x[1]) +
                   20 * (x[2] - 0.5) * (x[2] - 0.5) + 10 * x[3] + 5 * x[4] + random.normal();
  x.push_back(y);
  return x;
}

}  // namespace

NumberRows make_friedman(const FriedmanOptions& options) {
  expect_examples(options.examples);
  expect_examples(options.held_back, "held_back");
  NumberRows rows;
  for (std::int64_t i = 1; i <= columns; ++i) rows.names.push_back(fmt::format("x{}", i));
  rows.names.emplace_back("y");
  for (std::int64_t i = 0; i < options.examples; ++i)
    rows.train.push_back(row_of(options.seed, static_cast<std::uint64_t>(i)));
  for (std::int64_t i = 0; i < options.held_back; ++i)
    rows.validation.push_back(
        row_of(options.seed, first_validation_example + static_cast<std::uint64_t>(i)));
  return rows;
}

}  // namespace tapestry
