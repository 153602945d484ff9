#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"

// Ops as lists of terms: sums of products of small integers are exact in any order, so that kernels
// must give the values and gradients of plain loops without a tolerance.
namespace tapestry {

inline bool equal(const Array& found, const Array& expected) {
  return found.shape() == expected.shape() && doubles(found) == doubles(expected);
}

struct Factor {
  std::size_t input;
  std::int64_t index;
};
// Adds the term coefficient · Π factors to an element of the output.
using AddTerm = std::function<void(std::int64_t output, double coefficient,
                                   std::initializer_list<Factor> factors)>;

// An op whose output is a polynomial of its inputs; `terms` enumerates its terms.
struct Polynomial {
  std::string name;
  Function f;
  std::vector<Array> inputs;
  std::function<void(const AddTerm&)> terms;
};

// Returns the value of the terms, and their gradients for d(loss)/d(output) = g.
inline Outcome by_terms(const Polynomial& row, const Array& g) {
  Outcome outcome{Array::zeros(g.shape(), f64), {}};
  std::vector<const double*> x;
  std::vector<double*> dx;
  for (const Array& input : row.inputs) {
    outcome.gradients.push_back(Array::zeros(input.shape(), f64));
    x.push_back(input.values<double>().data());
  }
  for (Array& gradient : outcome.gradients) dx.push_back(gradient.mutable_values<double>().data());
  double* y = outcome.y.mutable_values<double>().data();
  const double* dy = g.values<double>().data();
  row.terms([&](std::int64_t output, double coefficient, std::initializer_list<Factor> factors) {
    double product = coefficient;
    for (const Factor& factor : factors) product *= x[factor.input][factor.index];
    y[output] += product;
    for (const Factor& factor : factors) {
      double others = coefficient * dy[output];
      for (const Factor& other : factors)
        if (&other != &factor) others *= x[other.input][other.index];
      dx[factor.input][factor.index] += others;
    }
  });
  return outcome;
}

inline void check_exact(const Polynomial& row) {
  CAPTURE(row.name);
  const Array g =
      integers(row.f(std::vector<Tensor>(row.inputs.begin(), row.inputs.end())).shape(), 100, 2);
  const Outcome expected = by_terms(row, g);
  for (const DType dtype : {f32, f64})
    with_threads({1, 2, 3}, [&](int threads) {
      CAPTURE(to_string(dtype));
      CAPTURE(threads);
      const Outcome found = run(row.f, row.inputs, dtype, g);
      CHECK(equal(found.y, expected.y));
      for (std::size_t i = 0; i < row.inputs.size(); ++i) {
        CAPTURE(i);
        CHECK(equal(found.gradients[i], expected.gradients[i]));
      }
    });
}

}  // namespace tapestry
