#include <doctest/doctest.h>

#include "tests/support/small_data.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("command line");

TEST_CASE("smoke: shipped configs of texts train, resume and sample") {
  smoke_test(is_of_language);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
