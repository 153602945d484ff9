#pragma once

#include <doctest/doctest.h>

#include "autograd/sanitizer.hpp"

// Labels of tests: TEST_CASE("…" * not_sanitized("why")).
namespace tapestry {

// The builds under a sanitizer leave the test out; --no-skip runs it all the same.
class not_sanitized {
 public:
  explicit not_sanitized(const char* why) : why_(why) {}
  void fill(doctest::detail::TestCase& test) const {
    test.m_description = why_;
    test.m_skip |= TAPESTRY_ADDRESS_SANITIZER || TAPESTRY_THREAD_SANITIZER;
  }

 private:
  const char* why_;
};

}  // namespace tapestry
