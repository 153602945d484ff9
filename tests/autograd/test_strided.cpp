#include <doctest/doctest.h>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/strided.hpp"
#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"

// What walks an array by strides, against the element at each index.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("strided");

// The place in an array of shape `own` of element i of `shape`, to which it is stretched.
std::int64_t stretched_place(const Shape& own, const Shape& shape, std::int64_t i) {
  std::int64_t place = 0, stride = 1;
  for (int axis = -1; axis >= -shape.rank(); --axis) {
    const std::int64_t index = i % shape[axis];
    i /= shape[axis];
    if (axis < -own.rank()) continue;
    place += own[axis] == 1 ? 0 : index * stride;
    stride *= own[axis];
  }
  return place;
}

TEST_CASE("broadcast: every element comes from its place, along all kinds of axes") {
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{7, 5}, {5}},
                                                                 {{7, 5}, {7, 1}},
                                                                 {{7, 5}, {}},
                                                                 {{4, 1, 6}, {3, 1}},
                                                                 {{2, 1, 3, 1}, {4, 1, 5}},
                                                                 {{1, 1}, {1}},
                                                                 {{3, 0}, {3, 1}},
                                                                 {{2, 300, 130}, {300, 130}},
                                                                 {{90, 1, 200}, {3, 1}}}) {
    const Shape shape = broadcast("test", a, b);
    CAPTURE(to_string(a));
    CAPTURE(to_string(b));
    const Array x = normal(a), y = normal(b);
    const auto xs = doubles(x), ys = doubles(y);
    const auto wide = doubles(broadcast_to(x, shape));
    const auto difference = doubles(subtract(x, y).value()), back = doubles((y - x).value());
    bool right = true;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const double v = xs[stretched_place(a, shape, i)], w = ys[stretched_place(b, shape, i)];
      right &= wide[i] == v && difference[i] == v - w && back[i] == w - v;
    }
    CHECK(right);
    CHECK(std::ssize(wide) == shape.elements());
  }
}

TEST_CASE("walk: axes that follow each other are one") {
  const auto merged_shape = [](const Shape& shape, const Strides& a, const Strides& b) {
    return merged(Walk<2>{shape, {a, b}}).shape;
  };
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {12, 4, 1}) == Shape{24});
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {0, 4, 1}) == Shape{2, 12});
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {3, 1, 0}) == Shape{6, 4});
  CHECK(merged_shape({1, 1}, {1, 1}, {0, 0}) == Shape{1});
  CHECK(merged_shape({}, {}, {}) == Shape{1});
}

TEST_CASE("reductions: sums and maxima of any axes, in one block of rows and columns and in many") {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 700, 3}, Shape{5, 130, 300}, Shape{9000, 2}})
    for (int chosen = 1; chosen < 1 << shape.rank(); ++chosen) {
      CAPTURE(to_string(shape));
      CAPTURE(chosen);
      const Array x = normal(shape);
      std::vector<bool> reduced;
      Shape kept = shape;
      for (int axis = 0; axis < shape.rank(); ++axis) {
        reduced.push_back(chosen >> axis & 1);
        if (reduced.back()) kept[axis] = 1;
      }
      std::vector<double> sums(kept.elements()), highest(kept.elements(), -infinity);
      for (std::int64_t i = 0; i < shape.elements(); ++i) {
        const std::int64_t to = stretched_place(kept, shape, i);
        sums[to] += x.values<double>()[i];
        highest[to] = std::max(highest[to], x.values<double>()[i]);
      }
      CHECK(doubles(reduce_axes(x, reduced, Reduction::max)) == highest);
      const auto added = doubles(reduce_axes(x, reduced, Reduction::sum));
      double wrong = 0;
      for (std::size_t i = 0; i < sums.size(); ++i)
        wrong = std::max(wrong, std::abs(added[i] - sums[i]));
      CHECK(wrong < 1e-10);
    }
  CHECK(doubles(reduce_axes(normal({2, 0, 2}), {false, true, false}, Reduction::max)) ==
        std::vector<double>(4, -infinity));
}

TEST_CASE("array: a part is some of its elements, in place") {
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
