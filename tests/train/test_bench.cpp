#include <doctest/doctest.h>

#include "autograd/parallel.hpp"
#include "tests/bench/scaling.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"

// The benchmarks of tests/bench/, and what times steps for them.
namespace tapestry {
namespace {

Finished bench_run(const Words& arguments) {
  return run_program(Words(TAPESTRY_EMULATOR) + Words{TAPESTRY_BENCH} + arguments);
}

TEST_SUITE_BEGIN("bench");

TEST_CASE("bug: durations just below a second were shown as 1e+03 ms") {
  CHECK(duration_text(0.99996) == "1 s");
  CHECK(duration_text(0.9994) == "999 ms");
  CHECK(duration_text(9.9996e-4) == "1 ms");
  CHECK(duration_text(0) == "0 s");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: the age of a process whose /proc cannot be read threw") {
  CHECK(process_age_s() > 0);
  CHECK(process_age_s(path()) == 0);
  for (const char* damaged : {"", "7", "7 (tapestry)", "7 (tapestry) S 1 2 3"}) {
    CAPTURE(damaged);
    write("proc/self/stat", damaged);
    CHECK(process_age_s(path()) == 0);
  }
}

TEST_CASE("bench: steps are timed as often, and as long, as was asked for") {
  int steps = 0;
  const auto step = [&] { ++steps; };
  const StepTimes times = time_steps(step, {.warm_up = 2, .least_steps = 3, .least_s = 0});
  CHECK(steps == 5);
  CHECK(times.steps == 3);
  CHECK(times.fastest_s <= times.median_s);
  CHECK(times.fastest_s <= times.mean_s);
  CHECK(times.median_s <= times.slowest_s);
  CHECK(time_steps(step, {.least_steps = 0, .least_s = 1e-3}).steps > 1);
  CHECK(time_steps(step, {.most_steps = 4}).steps == 4);
  for (const TimingOptions& once : {TimingOptions{.most_steps = 0}, {.longest_first_s = -1}}) {
    steps = 0;
    const StepTimes first = time_steps(step, once);
    CHECK(steps == 1);
    CHECK(first.steps == 1);
    CHECK(first.median_s == first.first_s);
  }
}

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
  CHECK(contains(table, "op step"));
}

TEST_CASE("scaling: the loops of a step are those between two marks, at their least") {
  const int before = num_threads();
  set_num_threads(3);
  const std::vector<Part> step = parts_of_step(5, [] {
    CHECK(num_threads() == 5);
    measure_steps(
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

TEST_CASE("scaling: tapestry-bench prints it") {
  const Finished finished = must(bench_run({"mlp-16", "--scaling"}));
  for (const char* text : {"\n64 ", "outside loops", "linear forward"})
    CHECK_MESSAGE(contains(finished.out, text), text);
}

TEST_CASE("bench: tapestry-bench measures a step" *
          not_sanitized("the peaks that it measures take minutes there")) {
  const Finished finished = must(bench_run({"vae", "--json"}));
  REQUIRE(lines_of(finished.out).size() == 1);
  const Json result = Json::parse(finished.out);
  CHECK(result["name"] == "vae");
  for (const std::string& field : Words(
           "threads step_s fastest_s slowest_s images_per_s gflops peak_gflops peak_before_gflops "
           "peak_after_gflops best_product_gflops share_of_peak peak_bytes first_step_s"))
    CHECK_MESSAGE(result[field].get<double>() > 0, field);
}

TEST_CASE("bench: tapestry-bench measures the time to a result, and lists what there is") {
  const Finished finished = must(bench_run({"--time-to-loss", "karate", "--json"}));
  REQUIRE(lines_of(finished.out).size() == 1);
  const Json result = Json::parse(finished.out);
  CHECK(result["name"] == "karate");
  CHECK(result["reached"] == true);
  CHECK(result["loss"] <= result["goal"]);
  CHECK(result["steps"] == 50);  // of the config's 100: it is there after the first evaluation
  for (const char* field : {"threads", "seconds", "evaluations"})
    CHECK_MESSAGE(result[field].get<double>() > 0, field);
  check_prints(bench_run({"--list"}), {"gpt-nano ", "4 layers of width 128", "conv-vae ",
                                       "gcn-cora ", "shakespeare-char ", "--time-to-loss: to 1.9"});
}

TEST_CASE("bench: what is wrong is one line on stderr, and the exit status is 2") {
  const Refusal rows[] = {
      {"vaee", {"vaee: no such benchmark; did you mean vae?"}},
      {"vae --data .", {"--data: ", "--time-to-loss"}},
      {"corra --time-to-loss", {"corra: no such benchmark; did you mean cora?"}},
      {"cora --time-to-loss --data none", {"none/cora", "no such file or folder"}}};
  for (const auto& [words, parts] : rows) {
    const Finished finished = bench_run(words);
    CHECK(finished.status == 2);
    CHECK(finished.out.empty());
    REQUIRE(lines_of(finished.err).size() == 1);
    check_says(finished.err, parts);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
