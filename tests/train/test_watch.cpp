#include <doctest/doctest.h>

#include <thread>

#include "tests/support/run_fixture.hpp"
#include "train/run/lines.hpp"
#include "train/run/run.hpp"
#include "train/trainer/callbacks/progress.hpp"

// Tests what watch shows of a training.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("watch");

TEST_CASE("watch: draws a curve in blocks") {
  const std::vector<double> falling = {7, 6, 5, 4, 3, 2, 1, 0};
  CHECK(sparkline(falling, 20) == "█▇▆▅▄▃▂▁");
  CHECK(sparkline(falling, 2) == "█▁");
  CHECK(sparkline(std::vector<double>{3, 3, 3}, 8) == "▁▁▁");
  CHECK(sparkline(std::vector<double>{1, std::nan("")}, 8).empty());
  CHECK(sparkline({}, 8).empty());
}

TEST_CASE("watch: fits a line into the columns, and drops the least important part") {
  const std::vector<double> losses = {4, 3, 2};
  const Status status{.step = 120,
                      .steps = 400,
                      .loss = 2.5495,
                      .losses = losses,
                      .units_per_s = 21355.4,
                      .unit = "tokens",
                      .seconds_left = 12.2,
                      .memory_bytes = 312 << 20};
  const std::vector<std::pair<std::int64_t, std::string>> rows = {
      {80, "step 120/400  loss 2.5495  █▅▁  21355 tokens/s  0:12 left  312 MB"},
      {65, "step 120/400  loss 2.5495  █▅▁  21355 tokens/s  0:12 left  312 MB"},
      {64, "step 120/400  loss 2.5495  █▅▁  21355 tokens/s  0:12 left"},
      {55, "step 120/400  loss 2.5495  21355 tokens/s  0:12 left"},
      {45, "step 120/400  loss 2.5495  0:12 left"},
      {30, "step 120/400  loss 2.5495"},
      {10, "step 120/4"},
      {0, ""}};
  for (const auto& [columns, wanted] : rows) CHECK(status_line(status, columns) == wanted);
  CHECK(status_line({.step = 1, .steps = 2, .unit = "images", .seconds_left = 7322}, 80) ==
        "step 1/2  loss 0.0000  0 images/s  2:02:02 left");
}

TEST_CASE_FIXTURE(TemporaryFolder, "watch: reads each line of a growing file once") {
  const std::string path = write("lines", "one\ntw");
  LineReader lines(path);
  CHECK(lines.next());
  CHECK(lines.text() == "one");
  CHECK(!lines.next());
  std::ofstream(path, std::ios::app) << "o\nthree\n";
  CHECK(lines.next());
  CHECK(lines.text() == "two");
  CHECK(lines.next());
  CHECK_ERROR(lines.expect(false, "?"), "lines:3: ?");
  CHECK(!lines.next());
}

TEST_CASE_FIXTURE(RunFixture,
                  "watch: shows a finished run and a running one, and refuses other folders") {
  must_train("vae", "run");
  check_prints(
      tapestry_run("watch {} --once", path("run")),
      {"step 10/40  validation: loss", "step 40/40  test (best model): loss", "examples/s"});

  const std::string lines = read("run/metrics.jsonl");
  // The line of the test split has the step of the best model, not the last one.
  fs::copy(path("run"), path("early"), fs::copy_options::recursive);
  write("early/metrics.jsonl",
        replaced(lines, "{\"step\":40,\"split\":\"test\"", "{\"step\":10,\"split\":\"test\""));
  check_says(must_run("watch {} --once --json", path("early")),
             {"\"state\":\"finished\",\"step\":40,\"steps\":40}"});
  fs::create_directory(path("grows"));
  fs::copy_file(path("run/config.toml"), path("grows/config.toml"));
  const auto half = lines.find("\"step\":20");
  std::ofstream(path("grows/metrics.jsonl")) << lines.substr(0, half);
  const Finished once = must(tapestry_run("watch {} --once", path("grows")));
  check_says(once.out, {"step 10/40  validation"});
  CHECK(!contains(once.out, "step 40/40"));
  // While a process has the lock of a run, the run is not finished, however slow it is.
  std::optional<RunLock> lock;
  lock.emplace(Run(path("grows")), RunLock::Folder::find);
  std::thread trains([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::ofstream(path("grows/metrics.jsonl"), std::ios::app) << lines.substr(half);
    lock.reset();
  });
  const Finished grown = tapestry_run("watch " + path("grows"));
  trains.join();
  check_prints(grown, {"step 40/40  test (best model): loss"});

  must_train("toy", "short", "optim.learning_rate=0 train.log_every=50 train.early_stopping=1");
  const Finished brief =
      tapestry_run("watch {} --once", path("short"));  // without a line of training
  check_says(brief.out, {"step 10/40  validation", "step 20/40  validation"});
  CHECK(brief.status == 0);

  fs::remove(path("grows/metrics.jsonl"));
  lock.emplace(Run(path("grows")), RunLock::Folder::find);
  std::thread begins([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    std::ofstream(path("grows/metrics.jsonl")) << lines;
    lock.reset();
  });
  const Finished late = tapestry_run("watch " + path("grows"));
  begins.join();
  check_says(late.out, {"step 40/40  test (best model): loss"});

  check_fails(run_here("watch " + path("none")), {"none: no such run"});
  write("run/metrics.jsonl", "{\"step\":1,\"split\":\"train\",\"elapsed_s\":1}\nnot JSON\n\n");
  CHECK(tapestry_run("watch {} --once", path("run")).status == 0);
}

TEST_CASE_FIXTURE(RunFixture, "bug: watch: a finished run had time left") {
  must_train("toy", "run", "train.log_every=1");
  const std::string metrics = read("run/metrics.jsonl"), sessions = read("run/sessions.jsonl");
  write("run/metrics.jsonl", metrics.substr(0, metrics.find("{\"step\":21")));
  const std::string begun = lines_of(sessions).front() + "\n";
  const auto ended = [](const std::string& how) {
    return fmt::format("{{\"ended\":\"now\",\"step\":20,\"how\":\"{}\",\"tensor_bytes\":1}}\n",
                       how);
  };
  const std::tuple<std::string, std::string, int> rows[] = {
      {ended("stopped"), "run: stopped at step 20 of 40\n", 130},
      {ended("failed: no"), "run: failed: no at step 20 of 40\n", 1},
      {"", "run: ended at step 20 of 40 without a record of its end: it was killed", 1},
      {ended("done"), "run: finished, 20 steps\n", 0}};
  for (const auto& [end, said, status] : rows) {
    write("run/sessions.jsonl", begun + end);
    for (const Words& more : {Words("--once"), Words()}) {
      if (more.empty() && status != 1) continue;  // it waits two seconds for another process
      const Finished watched = tapestry_run(Words("watch {}", path("run")) + more);
      CHECK(watched.status == status);
      check_says(watched.out, {"step 20/40  loss ", said});
      CHECK(!contains(watched.out, " left"));
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
