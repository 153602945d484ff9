#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "autograd/sanitizer.hpp"

// Marks of tests that cannot run everywhere: TEST_CASE("…" * not_sanitized("why")), also for a
// suite, and left_out in a test.
namespace tapestry {

// Builds with a sanitizer skip the test unless --no-skip is given.
class not_sanitized {
 public:
  explicit not_sanitized(const char* why) : why_(why) {}
  template <class Test>  // a test case or a suite
  void fill(Test& test) const {
    test.m_description = why_;
    test.m_skip |= TAPESTRY_ADDRESS_SANITIZER || TAPESTRY_THREAD_SANITIZER;
  }

 private:
  const char* why_;
};

// Reports that the rest of a test is skipped because something is not installed. With
// TAPESTRY_TEST_ALL set, as in .ci/run, that is a failure.
inline void left_out(const std::string& why) {
  if (std::getenv("TAPESTRY_TEST_ALL"))
    FAIL_CHECK("left out, but TAPESTRY_TEST_ALL is set: ", why);
  else
    MESSAGE("left out: ", why);
}

}  // namespace tapestry
