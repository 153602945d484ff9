#include <doctest/doctest.h>

#include <regex>
#include <set>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests that the figures of the pages are those of tests/bench/results.json.
namespace tapestry {
namespace {

struct TextPage {
  std::string path, text;
};

// Returns README.md, and the pages and configs of the six folders.
std::vector<TextPage> pages() {
  const fs::path root = paths::source;
  std::vector<TextPage> found = {{"README.md", read_bytes((root / "README.md").string())}};
  for (const char* folder : {"autograd", "layers", "optim", "data", "train", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".md" ||
          (entry.path().extension() == ".toml" && contains(entry.path().string(), "/configs/")))
        found.push_back(
            {fs::relative(entry.path(), root).string(), read_bytes(entry.path().string())});
  return found;
}

// Returns the lines outside of tables of results that give a time, such as "12 s" or "3 min".
Strings lines_with_times(const std::string& text) {
  static const std::regex time(
      "\\d ?(?:µs|ms|s|min|minutes|seconds)\\b"
      "|\\b(?:two|three|four|five|six|seven|eight|nine|ten) minutes\\b"
      "|\\b(?:a|one) minute\\b");
  Strings found;
  bool is_made = false;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("<!-- results: ")) is_made = true;
    if (!is_made && std::regex_search(line, time)) found.push_back(line);
    if (line == "<!-- end -->") is_made = false;
  }
  return found;
}

struct Exception {
  std::string page, line;  // how the path begins, and a part of the line; "" allows all lines
};

// Times that are not of trainings, and settings.
const std::vector<Exception> exceptions = {
    {"README.md", "init notes.txt --minutes"},
    // seconds of a compilation
    {"train/tasks/README.md", "folder of its own is compiled"},
    // an assumption of an estimate
    {"train/distributed/README.md", "micro-batch of 1024 tokens"},
    // limits and speed of tools
    {"train/guide/tokenizers-and-shards.md", "1 shard of uint16"},
    {"train/tools/doctor/README.md", "Where a step takes above"},
    {"train/tools/plan/README.md", "GPT-2 is planned in"},
    {"train/guide/several-processes.md", "writes a checkpoint five minutes before"},
    {"train/guide/training-and-configs.md", "train.time_limit"},
    {"train/configs/README.md", "train.time_limit"},
    // what output looks like
    {"train/guide/training-and-configs.md", "ms a step over 15 steps"},
    {"train/guide/training-and-configs.md", "ms/step ("},
    {"train/guide/training-and-configs.md", "memory  first step after"},
    {"train/guide/resuming-and-checking.md", "ok    "},
    // commands, calls and tests
    {"train/guide/python-and-c.md", ""},
    {"train/guide/cpp-programs.md", ""},
    {"train/guide/install.md", ""},
    {"train/guide/promises.md", ""},
    {"tests/interop/README.md", ""},
    {"tests/fuzz/README.md", ""},
    // limits of init, and trainings of its choices
    {"train/guide/own-data.md", ""},
    // transcripts of the course, each with the time of its trainings
    {"train/guide/learn/", ""},
};

TEST_SUITE_BEGIN("repository" * not_sanitized("it reads pages, and runs a script"));

TEST_CASE("repository: the tables of the pages are those of tests/bench/results.json") {
  if (run_program({"sh", "-c", "command -v python3"}).status != 0)
    return left_out("python3 is not installed");
  const Finished checked = run_program({"python3", source_path("tests/bench/results"), "--check"});
  CHECK_MESSAGE(checked.status == 0, checked.err);
}

TEST_CASE("repository: times of trainings stand in tables of results alone") {
  CHECK(lines_with_times("It takes 12 s.\nIt takes 3 steps.\n10 µs a step\ntwo minutes\n") ==
        Strings{"It takes 12 s.", "10 µs a step", "two minutes"});
  CHECK(lines_with_times("<!-- results: a -->\n| 1 s |\n<!-- end -->\n2 min\n") ==
        Strings{"2 min"});
  std::set<const Exception*> used;
  for (const TextPage& page : pages())
    for (const std::string& line : lines_with_times(page.text)) {
      const auto allowed = std::ranges::find_if(exceptions, [&](const Exception& one) {
        return page.path.starts_with(one.page) && contains(line, one.line);
      });
      CHECK_MESSAGE(allowed != exceptions.end(), page.path, ": ", line,
                    "\nmake a table of results of it (tests/bench/README.md), or name it among the "
                    "exceptions");
      if (allowed != exceptions.end()) used.insert(&*allowed);
    }
  for (const Exception& one : exceptions)
    CHECK_MESSAGE(used.contains(&one), one.page, ": no line needs the exception ", one.line);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
