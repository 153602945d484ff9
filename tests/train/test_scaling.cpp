#include <doctest/doctest.h>

#include "autograd/parallel.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/tools/bench/benchmark.hpp"
#include "train/tools/bench/scaling.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("scaling");

TEST_CASE("scaling: the longest thread of schedules by hand") {
  CHECK(longest_thread({}, 4) == 0);
  CHECK(longest_thread({3, 1, 2}, 1) == 6);
  CHECK(longest_thread({3, 1, 2}, 8) == 3);
  CHECK(longest_thread({1, 1, 1, 1, 1, 1, 1}, 2) == 4);
  // Shares of two pieces: 5 5 | 1 1. The second thread takes the first one's second piece at 2.
  CHECK(longest_thread({5, 5, 1, 1}, 2) == 7);
  // Shares 1 1 | 1 9 | 1 1. The first and third are done at 2, when the piece of 9 has begun at 1.
  CHECK(longest_thread({1, 1, 1, 9, 1, 1}, 3) == 10);
}

TEST_CASE("scaling: a part's serial time is the same on any number of threads") {
  const Part part{.name = "op", .serial_s = 2, .loops = {{1, 1, 1, 1}, {4, 4}}};
  CHECK(seconds_of(part, 1) == 14);
  CHECK(seconds_of(part, 2) == 8);
  CHECK(seconds_of(part, 4) == 7);
  const std::string table = scaling_table([&](int) { return std::vector{part, part}; });
  CHECK(table.find("op step") != std::string::npos);
}

TEST_CASE("scaling: the loops of a step are those between two marks, at their least") {
  const int before = num_threads();
  set_num_threads(3);
  const std::vector<Part> step = parts_of_step(5, [] {
    CHECK(num_threads() == 5);
    time_steps(
        [] {
          parallel_for(10, 2, [](auto, auto) { parallel_for(4, 1, [](auto, auto) {}); });
          parallel_for(1, 2, [](auto, auto) {});
          profile::mark(profile::Phase::forward, "loops", nullptr, 0);
          profile::mark(profile::Phase::step, "none", nullptr, 0);
        },
        {.warm_up = 1, .least_steps = 3, .least_s = 0});
  });
  CHECK(num_threads() == 3);
  set_num_threads(before);
  REQUIRE(step.size() == 2);
  CHECK(step[0].name == "loops");
  REQUIRE(step[0].loops.size() ==
          1);  // a loop of one piece is none, and an inner one is its piece's
  CHECK(step[0].loops[0].size() == 5);
  CHECK(step[1].loops.empty());
}

TEST_CASE("scaling: bench prints it") {
  const Finished finished = tapestry_run({"bench", "mlp-16", "--scaling"});
  CHECK(finished.status == 0);
  for (const char* text : {"\n64 ", "outside loops", "linear forward"})
    CHECK_MESSAGE(finished.out.find(text) != std::string::npos, text);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
