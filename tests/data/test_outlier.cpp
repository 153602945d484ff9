#include <doctest/doctest.h>

#include "data/outlier.hpp"

namespace tapestry {
namespace {

TEST_CASE("outlier: a value is none that few others are like, or that stands there once") {
  std::vector<float> column;
  for (int i = 0; i < 500; ++i) column.push_back(static_cast<float>(i % 100));
  CHECK(!outlier_of(column).has_value());
  const auto with = [&](int count, float value) {
    std::vector<float> more = column;
    more.insert(more.end(), count, value);
    return outlier_of(more);
  };
  CHECK(!with(2, 999).has_value());  // a peak
  CHECK(!with(5, 300).has_value());
  REQUIRE(with(3, 999).has_value());
  CHECK(with(3, 999)->count == 3);
  CHECK(with(3, 999)->high == 99);
  CHECK(with(1, -1e6F).has_value());
  std::vector<float> classes(100), shares(100);
  for (std::size_t i = 0; i < 100; ++i) classes[i] = static_cast<float>(i % 3);
  classes.insert(classes.end(), 5, 50);
  CHECK(!outlier_of(classes).has_value());
  for (std::size_t i = 0; i < 100; ++i) shares[i] = static_cast<float>(i) * 1e-4F;
  shares.insert(shares.end(), 5, 1);  // the pixels of a margin
  CHECK(!outlier_of(shares).has_value());
}

}  // namespace
}  // namespace tapestry
