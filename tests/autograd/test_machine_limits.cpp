#include <doctest/doctest.h>

#include "autograd/kernels/limits.hpp"
#include "autograd/random.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("machine limits");

TEST_CASE("machine limits: turn_signs flips every sign as often as requested") {
  Array x({5, limit_columns});
  Random random(1, Stream::data);
  random.fill_normal(x, 0, 1);
  const Array before = x.clone();
  for (const std::int64_t times : {0, 1, 6}) {  // unchanged, flipped, and flipped six more times
    turn_signs(x, times);
    const float sign = times == 0 ? 1.0f : -1.0f;
    for (std::int64_t i = 0; i < x.size(); ++i)
      REQUIRE(x.values<float>()[i] == sign * before.values<float>()[i]);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
