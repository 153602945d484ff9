#include <doctest/doctest.h>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"
#include "train/measure/step_speed.hpp"

// Tests the benchmarks of tests/bench/ and the timing of steps.
namespace tapestry {
namespace {

Finished bench_run(const Words& arguments) {
  return run_program(Words(paths::emulator) + Words{paths::bench} + arguments);
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

TEST_CASE("bench: times as many steps, and as long, as requested") {
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

TEST_CASE("bench: tapestry-bench measures the time to a loss, and lists its workloads") {
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

TEST_CASE("bench: errors are one line on stderr, with status 2") {
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
