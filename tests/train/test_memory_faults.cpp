#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "autograd/buffer_pool.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"

// Tests a lack of memory at each allocation of a training, an evaluation, a report and an import.
namespace tapestry {
namespace {

class MemoryTrial {
 public:
  struct Work {
    Strings words;     // the command
    std::string made;  // the file or folder that it makes
  };

  MemoryTrial() {
    fixture_.must_train("toy", "run", short_);
    Strings training = {"train", path("toy.toml"), "--quiet", "--out", path("new")};
    training.insert(training.end(), short_.begin(), short_.end());
    works_ = {
        {with_sets(training), path("new")},
        {{"eval", path("run"), "--json"}, path("nothing")},
        {{"report", path("run"), "--out", path("page.html")}, path("page.html")},
        {{"import", golden_path("published/gpt2"), "--out", path("imported")}, path("imported")}};
  }

  const std::vector<Work>& works() const { return works_; }

  // Runs the command, and returns how it ended wrongly, or "".
  std::string fault(const Work& work, const std::function<Finished()>& run) const {
    fs::remove_all(work.made);
    const Tree before = tree();
    const Finished finished = run();
    Tree after = tree();
    const std::string said = fmt::format("status {}: {}", finished.status, finished.err);
    if (finished.status > 2) return said;
    if (finished.status != 0 &&
        (lines_of(finished.err).size() != 1 || !finished.err.starts_with("tapestry: ")))
      return said;
    Tree made;
    for (auto at = after.begin(); at != after.end();)
      if (at->first.starts_with(work.made))
        made.insert(after.extract(at++));
      else
        ++at;
    if (after != before) return "changed other files; " + said;
    return fault_of(work, finished.status == 0, made);
  }

 private:
  using Tree = std::map<std::string, std::string>;  // bytes of files by path

  std::string path(const std::string& name) const { return fixture_.path(name); }

  Tree tree() const {
    Tree files;
    for (const auto& entry : fs::recursive_directory_iterator(path("")))
      if (entry.is_regular_file()) files[entry.path().string()] = read_bytes(entry.path().string());
    return files;
  }

  // Files must be complete, or a training's run must be resumable.
  std::string fault_of(const Work& work, bool done, const Tree& made) const {
    for (const auto& [file, bytes] : made) {
      if (file.ends_with(".tmp")) return "left " + file;
      if (file.ends_with(".safetensors")) load_checkpoint(file);
      if (file.ends_with(".html") && bytes.find("</html>") == std::string::npos)
        return "wrote a part of " + file;
      if (file.ends_with(".html") && bytes.find("out of memory") != std::string::npos)
        return "left out of " + file + " what did not fit into memory";  // bug: with status 0
    }
    if (done && made.empty() && work.words[0] != "eval") return "made nothing";
    if (work.words[0] == "import" && !made.empty() &&
        !made.contains(work.made + "/best.safetensors"))
      return "imported a part";
    if (work.words[0] != "train") return "";
    Strings again = work.words;
    if (made.contains(work.made + "/checkpoint.safetensors") ||
        made.contains(work.made + "/best.safetensors"))
      again.push_back("--resume");
    else
      fs::remove_all(work.made);
    const Finished finished = run_here(again);
    if (finished.status != 0) return "does not resume: " + finished.err;
    check_same_checkpoint(path("new/checkpoint.safetensors"), path("run/checkpoint.safetensors"));
    return "";
  }

  RunFixture fixture_;
  Strings short_ = {"train.steps=3", "train.eval_every=2", "train.checkpoint_every=1",
                    "train.log_every=1"};
  std::vector<Work> works_;
};

using Numbers = std::vector<std::int64_t>;

// Returns 1 to `last`, or `count` of these at equal distances.
Numbers spaced(std::int64_t last, std::int64_t count) {
  Numbers numbers;
  for (std::int64_t i = 1; i <= std::min(count, last); ++i)
    numbers.push_back(last * i / std::min(count, last));
  return numbers;
}

// Returns 1 to 1,000, and 500 to `last` at distances that grow.
Numbers a_thousand_and_more(std::int64_t last) {
  Numbers numbers = spaced(std::min<std::int64_t>(last, 1000), 1000);
  for (int i = 1; i <= 500 && last > 1000; ++i) {
    const double ratio = static_cast<double>(last) / 1000;
    const auto n = static_cast<std::int64_t>(1000 * std::pow(ratio, i / 500.0));
    if (n > numbers.back()) numbers.push_back(n);
  }
  return numbers;
}

// Makes the allocation of each array fail, one at a time.
void fail_arrays(const std::function<Numbers(std::int64_t last)>& chosen) {
  const MemoryTrial trial;
  for (const MemoryTrial::Work& work : trial.works()) {
    CAPTURE(work.words[0]);
    std::int64_t requests = 1'000'000'000;
    CHECK(trial.fault(work, [&] {
      fail_request_after(requests);
      const Finished finished = run_here(work.words);
      requests -= fail_request_after(-1);
      return finished;
    }) == "");
    int failed = 0;
    for (const std::int64_t n : chosen(requests)) {
      const std::string fault = trial.fault(work, [&] {
        fail_request_after(n - 1);
        const Finished finished = run_here(work.words);
        fail_request_after(-1);
        failed += finished.status != 0;
        return finished;
      });
      CHECK_MESSAGE(fault == "", "array ", n, " of ", requests, ": ", fault);
    }
    MESSAGE(work.words[0], ": ", requests, " arrays; ", failed, " failures ended it");
  }
}

// Makes calls of operator new fail, one at a time.
void fail_operator_new(const std::function<Numbers(std::int64_t last)>& chosen) {
  const MemoryTrial trial;
  const TemporaryFolder folder;
  const std::string count = folder.path("count");
  for (const MemoryTrial::Work& work : trial.works()) {
    CAPTURE(work.words[0]);
    const auto run = [&](std::int64_t failing) {
      Strings command = {
          "env", fmt::format("LD_PRELOAD={}/tests/libtapestry-failing-new.so", paths::build),
          fmt::format("TAPESTRY_FAILING_NEW={}", failing), "TAPESTRY_COUNT_NEW=" + count,
          paths::program};
      command.insert(command.end(), work.words.begin(), work.words.end());
      return run_program(command);
    };
    CHECK(trial.fault(work, [&] { return run(0); }) == "");
    const std::int64_t news = std::stoll(read_bytes(count));
    int failed = 0;
    for (const std::int64_t n : chosen(news)) {
      const std::string fault = trial.fault(work, [&] {
        const Finished finished = run(n);
        failed += finished.status != 0;
        return finished;
      });
      CHECK_MESSAGE(fault == "", "operator new ", n, " of ", news, ": ", fault);
    }
    MESSAGE(work.words[0], ": ", news, " calls; ", failed, " failures ended it");
  }
}

TEST_SUITE_BEGIN("faults");

TEST_CASE("faults: lack of memory is one line, and files are unchanged or complete") {
  fail_arrays([](std::int64_t last) { return spaced(last, 20); });
}

TEST_CASE("faults: so is a failing operator new" *
          not_sanitized("the address sanitizer has an operator new of its own")) {
  fail_operator_new([](std::int64_t last) { return spaced(last, 20); });
}

TEST_CASE("faults: of every array that is allocated" * doctest::skip(true) *
          doctest::description("half a minute")) {
  fail_arrays([](std::int64_t last) { return spaced(last, last); });
}

TEST_CASE("faults: of a thousand calls of operator new, and of 500 more" * doctest::skip(true) *
          doctest::description("a minute")) {
  fail_operator_new(a_thousand_and_more);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
