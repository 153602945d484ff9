#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapestry {

struct FriedmanOptions {
  std::int64_t examples = 1000, held_back = 1000;  // numbers of rows for training and validation
  std::uint64_t seed = 0;
};

// Rows of numbers with the names of their columns, of which the last one is predicted.
struct NumberRows {
  std::vector<std::string> names{};
  std::vector<std::vector<double>> train{}, validation{};
};

// Returns rows of x1 to x10, uniform in [0, 1), and y = 10 sin(π x1 x2) + 20 (x3 - 1/2)² + 10 x4 +
// 5 x5 + ε with normal ε of deviation 1 (Friedman 1991, "Multivariate adaptive regression splines",
// eq. 56): x6 to x10 say nothing of y, and no model has a root mean squared error below 1. A row
// depends only on the seed and its number; those of the validation have other numbers. Throws
// OptionError of "examples" and "held_back" below 1.
NumberRows make_friedman(const FriedmanOptions& options);

}  // namespace tapestry
