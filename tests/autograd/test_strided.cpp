#include <doctest/doctest.h>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/strided.hpp"
#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"

// Compares loops over strides with the element at each index.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("strided");

TEST_CASE("walk: contiguous axes are merged") {
  const auto merged_shape = [](const Shape& shape, const Strides& a, const Strides& b) {
    return merged(Walk<2>{shape, {a, b}}).shape;
  };
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {12, 4, 1}) == Shape{24});
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {0, 4, 1}) == Shape{2, 12});
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {3, 1, 0}) == Shape{6, 4});
  CHECK(merged_shape({1, 1}, {1, 1}, {0, 0}) == Shape{1});
  CHECK(merged_shape({}, {}, {}) == Shape{1});
}

TEST_CASE("array: a part shares the memory of its elements") {
  Array x = row({0, 1, 2, 3, 4, 5}).reshaped({2, 3});
  Array middle = x.part(2, 5);
  CHECK(doubles(middle) == std::vector<double>{2, 3, 4});
  middle.mutable_values<double>()[0] = 7;
  CHECK(x.values<double>()[2] == 7);
  CHECK(x.part(6, 6).size() == 0);
  CHECK_THROWS_AS(x.part(3, 7), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
