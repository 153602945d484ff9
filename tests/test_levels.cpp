#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/process.hpp"

namespace tapestry {
namespace {

Finished run_at(const std::string& level, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"env", "TAPESTRY_LEVEL=" + level, TAPESTRY_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command);
}

// Those that are built, and that this processor has.
std::vector<std::string> levels_here() {
  std::vector<std::string> levels;
  for (const std::string level : {"v2", "v3", "v4"})
    if (run_at(level, {"--version"}).status == 0) levels.push_back(level);
  return levels;
}

TEST_SUITE_BEGIN("levels");

TEST_CASE("levels: --version names version, commit, level, engines and threads") {
  const std::string version = tapestry_run({"--version"}).out;
  check_says(version, {"tapestry 0.", "OpenBLAS ", " thread"});
  for (const std::string& level : levels_here()) {
    check_says(run_at(level, {"--version"}).out, {"x86-64-" + level + ", "});
    CHECK(run_at("x86-64-" + level, {"--version"}).out == run_at(level, {"--version"}).out);
  }
}

TEST_CASE("levels: what is not there is refused in one line") {
  for (const std::string level : {"v1", "v5", "x86-64-v33", "avx2", " v3", "3", "|id"}) {
    const Finished refused = run_at(level, {"list"});
    CHECK(refused.status == 2);
    CHECK(lines_of(refused.err).size() == 1);
    check_says(refused.err, {"TAPESTRY_LEVEL=" + level + ": no such level"});
  }
  for (const std::string level : {"v2", "v3", "v4"}) {
    const Finished finished = run_at(level, {"list"});
    if (finished.status == 0) continue;  // it is there
    CHECK(finished.status == 2);
    CHECK(lines_of(finished.err).size() == 1);
    check_says(finished.err, {"TAPESTRY_LEVEL=" + level + ": "});
  }
  CHECK(run_at("", {"list"}).status == 0);
}

TEST_CASE("levels: they train to the same within 1e-4, and a resumed run says that it changed") {
  const std::vector<std::string> levels = levels_here();
  const TemporaryFolder folder;
  const auto train = [&](const std::string& level, const std::string& run, const std::string& steps,
                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {"train",     "sort",
                                        "--out",     folder.path(run),
                                        "--threads", "2",
                                        "--set",     "train.steps=" + steps,
                                        "--set",     "train.log_every=1"};
    command.insert(command.end(), more.begin(), more.end());
    const Finished finished = run_at(level, command);
    INFO(finished.err);
    REQUIRE(finished.status == 0);
    return finished.out;
  };
  const auto losses = [&](const std::string& run) {
    std::vector<double> found;
    for (const std::string& line : lines_of(read_bytes(folder.path(run) + "/metrics.jsonl")))
      found.push_back(nlohmann::json::parse(line)["loss"]);
    return found;
  };
  for (const std::string& level : levels)
    check_says(lines_of(train(level, level, "20")).front(), {"x86-64-" + level + ", "});
  for (const std::string& level : levels) {
    const std::vector<double> here = losses(level), there = losses(levels.front());
    REQUIRE(here.size() == 21);  // and the evaluation
    for (std::size_t i = 0; i < here.size(); ++i)
      CHECK(here[i] == doctest::Approx(there[i]).epsilon(1e-4));
  }
  if (levels.size() < 2) {
    MESSAGE("one level is built and supported: none to compare it with");
    return;
  }
  const std::string resumed = train(levels.back(), levels.front(), "25", {"--resume"});
  check_says(resumed, {"so far it was trained by \"x86-64-" + levels.front(),
                       "it goes on by \"x86-64-" + levels.back()});
  const std::string again = train(levels.back(), levels.front(), "26", {"--resume"});
  CHECK(again.find("so far it was trained by") == std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
