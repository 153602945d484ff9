#include <doctest/doctest.h>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

Finished run_at(const std::string& level, const Words& arguments) {
  return run_program(Words("env TAPESTRY_LEVEL={} {}", level, paths::program) +
                     with_sets(arguments));
}

// Returns the levels that are built and that this processor supports.
Strings levels_here() {
  Strings levels;
  for (const std::string level : {"v2", "v3", "v4"})
    if (run_at(level, {"--version"}).status == 0) levels.push_back(level);
  return levels;
}

TEST_SUITE_BEGIN("levels");

TEST_CASE("levels: --version prints version, commit, level, backends and threads") {
  const std::string version = tapestry_run("--version").out;
  check_says(version, {"tapestry 0.", " tiles, ", " thread"});
  for (const std::string& level : levels_here()) {
    check_says(run_at(level, {"--version"}).out, {"x86-64-" + level + ", "});
    if (level == "v2") check_says(run_at(level, {"--version"}).out, {", 6x8 tiles, "});
    if (level == "v3") check_says(run_at(level, {"--version"}).out, {", 6x16 tiles, "});
    // Without AVX-512, bfloat16 products are computed with rounded float32.
    if (level != "v4")
      CHECK(run_at(level, {"--version"}).out.find("bfloat16") == std::string::npos);
    CHECK(run_at("x86-64-" + level, {"--version"}).out == run_at(level, {"--version"}).out);
  }
}

TEST_CASE("levels: a level that is not built is refused in one line") {
  for (const std::string level : {"v1", "v5", "x86-64-v33", "avx2", " v3", "3", "|id"}) {
    check_fails(run_at(level, {"list"}), {"TAPESTRY_LEVEL=" + level + ": unknown level"});
  }
  for (const std::string level : {"v2", "v3", "v4"}) {
    const Finished finished = run_at(level, {"list"});
    if (finished.status == 0) continue;  // it exists
    check_fails(finished, {"TAPESTRY_LEVEL=" + level + ": "});
  }
  check_says(run_at("v\n3\033[2J", {"list"}).err, {"TAPESTRY_LEVEL=v?3?[2J: unknown level"});
  CHECK(run_at("", {"list"}).status == 0);
}

// qemu's processors have the instructions of the real ones; an unknown instruction ends a program
// with SIGILL.
TEST_CASE("levels: older processors load their level, or print one line" *
          not_sanitized("an emulated processor is too slow for it")) {
  const auto run_on = [](const std::string& processor, const std::string& level,
                         const Words& arguments) {
    Finished finished = run_program(Words("env TAPESTRY_LEVEL={} qemu-x86_64-static -cpu {} {}",
                                          level, processor, paths::program) +
                                    with_sets(arguments));
    std::string own;  // without qemu's warnings
    for (const std::string& line : lines_of(finished.err))
      if (!line.starts_with("qemu-x86_64")) own += line + "\n";
    finished.err = own;
    return finished;
  };
  if (run_on("max", "", {"--help"}).status == 127 || *paths::emulator) {
    left_out("qemu-x86_64-static is not installed");
    return;
  }
  const auto check_refused = [](const Finished& refused, const std::string& part) {
    check_fails(refused, {part});
  };
  const Strings levels = levels_here();
  check_refused(run_on("qemu64", "", {"--version"}), "lacks SSE4.2");
  for (const auto& [processor, has, lacks] : {std::array<std::string, 3>{"qemu64", "", "v2"},
                                              {"Nehalem", "v2", "v3"},
                                              {"Haswell", "v3", "v4"}}) {
    CAPTURE(processor);
    check_refused(run_on(processor, lacks, {"--version"}),
                  "TAPESTRY_LEVEL=" + lacks + ": this processor lacks the instructions");
    if (has.empty()) continue;
    if (std::ranges::count(levels, has) == 0) {
      check_refused(run_on(processor, has, {"--version"}), "TAPESTRY_LEVEL=" + has + ": not built");
      continue;
    }
    const TemporaryFolder folder;
    check_prints(
        run_on(processor, "", {"train", "karate", "train.steps=2", "--out", folder.path("run")}),
        {"x86-64-" + has + ", ", "step 2/2"});
  }
}

TEST_CASE("levels: trainings agree within 1e-4, and a resumed run names the change") {
  const Strings levels = levels_here();
  const TemporaryFolder folder;
  const auto train = [&](const std::string& level, const std::string& run, const std::string& steps,
                         const Words& more = {}) {
    const Finished finished = must(run_at(
        level,
        Words(
            "train sort --out {} --threads 2 train.steps={} optim.decay_steps=20 train.log_every=1",
            folder.path(run), steps) +
            more));
    return finished.out;
  };
  const auto losses = [&](const std::string& run) {
    std::vector<double> found;
    for (const std::string& line : lines_of(read_bytes(folder.path(run) + "/metrics.jsonl")))
      found.push_back(Json::parse(line)["loss"]);
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
  const std::string resumed = train(levels.back(), levels.front(), "25", "--resume");
  check_says(resumed, {"was trained with \"x86-64-" + levels.front(),
                       "resumes with \"x86-64-" + levels.back()});
  const std::string again = train(levels.back(), levels.front(), "26", "--resume");
  CHECK(!contains(again, "was trained with"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
