#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "autograd/buffer_pool.hpp"
#include "tests/support/disk.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/commands/output.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/training.hpp"

// Tests trainings on a disk that fails, at each of its calls in turn.
namespace tapestry {
namespace {

// A training of five steps in this process that writes all files of a run.
class Trial {
 public:
  Trial() {
    train(whole_);
    metrics_ = untimed(metrics_of(whole_.folder()));
  }

  // Begins or resumes the run. Returns the message of the error that ended it; "" without an error.
  std::string train() const { return train(run_); }

  const std::string& folder() const { return folder_; }
  const Run& run() const { return run_; }

  // Removes the run and its parent folder.
  void begin_anew() const { restore(folder_, {}); }

  void check_goes_on() const {
    CHECK(train() == "");
    check_same_checkpoint(run_.checkpoint(), whole_.checkpoint());
    check_same_checkpoint(run_.best(), whole_.best());
    CHECK(untimed(metrics_of(run_.folder())) == metrics_);
    for (const auto& entry : fs::directory_iterator(run_.folder()))
      CHECK_MESSAGE(entry.path().extension() != ".tmp", entry.path().string());
  }

  // Returns the step of the run's checkpoint, 0 without one. Throws if it or the best model does
  // not load.
  std::int64_t step_saved() const {
    if (fs::exists(run_.best())) load_checkpoint(run_.best());
    return fs::exists(run_.checkpoint()) ? load_checkpoint(run_.checkpoint()).state.step : 0;
  }

  // Counts the system calls of a training, without those that close its records and folder at the
  // end, which were synced before.
  std::vector<FailingDisk::Call> calls() const {
    const FailingDisk disk(folder_);
    REQUIRE(train() == "");
    std::vector<FailingDisk::Call> calls = disk.calls();
    for (const std::string& path : {run_.folder(), run_.checksums(), run_.metrics()}) {
      REQUIRE(calls.back().path == path);
      calls.pop_back();
    }
    return calls;
  }

 private:
  std::string train(const Run& run) const {
    const bool begun = fs::exists(run.checkpoint()) || fs::exists(run.best());
    if (!begun) fs::remove_all(run.folder());
    std::map<int, void (*)(int)> handlers;  // which a training replaces
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      handlers[signal] = std::signal(signal, SIG_DFL);
    std::string message;
    try {
      train_into(run, config_, {.resume = begun, .quiet = true});
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    for (const auto& [signal, handler] : handlers) std::signal(signal, handler);
    return message;
  }

  TemporaryFolder temporary_;
  std::string folder_ = temporary_.path("disk");
  Run run_{folder_ + "/runs/run"}, whole_{temporary_.path("whole")};
  Config config_ = load_config(
      "karate",
      Words("model.width=2 model.layers=1 optim.name=sgd optim.momentum=0.9 train.steps=5 "
            "train.log_every=1 train.eval_every=2 train.checkpoint_every=3"));
  Strings metrics_;
};

// "runs/run/config.toml" for "runs/run/.config.toml.12-1.tmp", and for "runs/run/config.toml.tmp"
std::string without_tmp(const std::string& path) {
  if (!path.ends_with(".tmp")) return path;
  const std::string name = fs::path(path).stem().string();
  return (fs::path(path).parent_path() /
          (name.starts_with('.') ? name.substr(1, name.rfind('.') - 1) : name))
      .string();
}

bool holds_tmp(const std::string& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".tmp";
  });
}

int errno_of(const std::string& call) {
  return call == "open" || call == "write" || call == "mkdir" || call == "rename" ? ENOSPC : EIO;
}

// Trains from the state that `begin` leaves, once for each system call, which fails.
void check_every_fault(const Trial& trial, const std::function<void()>& begin, After after) {
  begin();
  const std::vector<FailingDisk::Call> calls = trial.calls();
  std::int64_t reached = 0;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    const auto& [name, path] = calls[n];
    CAPTURE(n);
    CAPTURE(name);
    CAPTURE(path);
    begin();
    std::string message;
    {
      FailingDisk disk(trial.folder());
      disk.fail_at(n, errno_of(name), after);
      message = trial.train();
    }
    check_says(message, {without_tmp(path), std::strerror(errno_of(name))});
    CHECK(lines_of(message).size() == 1);
    const std::int64_t step = trial.step_saved();
    CHECK(step >= reached);
    reached = step;
    trial.check_goes_on();
  }
  CHECK(reached == 5);
}

TEST_SUITE_BEGIN("faults");

TEST_CASE_FIXTURE(Trial,
                  "faults: if each write fails once, checkpoints stay and the training resumes") {
  for (const After after : {After::once, After::for_good}) {
    CAPTURE(after);
    check_every_fault(
        *this, [&] { begin_anew(); }, after);
  }
}

TEST_CASE_FIXTURE(Trial,
                  "faults: if each write of a resumed training fails once, it resumes again") {
  begin_anew();
  const std::vector<FailingDisk::Call> calls = this->calls();
  const auto renamed =
      std::ranges::find(calls.rbegin(), calls.rend(), "rename", &FailingDisk::Call::name);
  begin_anew();
  FailingDisk::Tree killed;  // before its last checkpoint was renamed
  {
    FailingDisk disk(folder());
    disk.lose_power_at(calls.rend() - renamed - 1);
    REQUIRE(train() != "");
    killed = disk.left(Names::all, Bytes::all);
  }
  REQUIRE(std::ranges::any_of(killed, [&](const auto& left) {
    return left.first.ends_with(".tmp") && without_tmp(left.first) == run().checkpoint();
  }));
  check_every_fault(
      *this, [&] { restore(folder(), killed); }, After::once);
}

TEST_CASE_FIXTURE(
    Trial, "faults: after a power loss at any moment the training resumes from synced data") {
  begin_anew();
  const std::vector<FailingDisk::Call> calls = this->calls();
  std::int64_t reached = 0;
  for (std::size_t n = 1; n <= calls.size(); ++n) {
    // Between the writes to one file it is in no other state.
    if (n < calls.size() && calls[n].name == "write" && calls[n - 1].name == "write") continue;
    CAPTURE(n);
    CAPTURE(calls[n - 1].name);
    CAPTURE(calls[n - 1].path);
    begin_anew();
    std::set<FailingDisk::Tree> trees;
    std::int64_t least = 5;
    {
      FailingDisk disk(folder());
      disk.lose_power_at(n);
      CHECK((train() == "") == (n == calls.size()));
      for (const Names names : {Names::synced, Names::renamed, Names::all})
        for (const Bytes bytes : {Bytes::synced, Bytes::synced_or_zero, Bytes::all})
          trees.insert(disk.left(names, bytes));
    }
    for (const FailingDisk::Tree& tree : trees) {
      restore(folder(), tree);
      least = std::min(least, step_saved());
      check_goes_on();
    }
    CHECK(least >= reached);
    reached = least;
  }
  CHECK(reached == 5);
}

TEST_CASE_FIXTURE(Trial, "faults: interrupted and partial writes are continued") {
  begin_anew();
  {
    FailingDisk disk(folder());
    disk.interrupt_writes();
    REQUIRE(train() == "");
    CHECK(std::ranges::count(disk.calls(), "write", &FailingDisk::Call::name) > 100);
  }
  check_goes_on();
}

TEST_CASE_FIXTURE(Trial, "bug: unfinished files of a killed run were never removed") {
  begin_anew();
  REQUIRE(train() == "");
  const Run& run = this->run();
  for (const std::string& path : {run.config(), run.checkpoint(), run.best(), run.trace()})
    std::ofstream(path + ".tmp") << "the beginn";
  check_goes_on();
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: faults: --out to a link could destroy the linked file") {
  const std::string folder = this->path("disk"), path = folder + "/samples.csv",
                    link = folder + "/link";
  const auto begin = [&] {
    restore(folder, {{path, "old"}});
    fs::create_symlink(path, link);
  };
  for (const bool to_link : {false, true}) {
    CAPTURE(to_link);
    const std::string& out = to_link ? link : path;
    std::vector<FailingDisk::Call> calls;
    begin();
    {
      const FailingDisk disk(folder);
      write_bytes(out, "new and longer");
      calls = disk.calls();
    }
    CHECK(calls.size() == 8);
    for (std::size_t n = 0; n < calls.size(); ++n) {
      CAPTURE(calls[n].name);
      begin();
      FailingDisk disk(folder);
      disk.fail_at(n, errno_of(calls[n].name), After::once);
      CHECK_THROWS_WITH_AS(write_bytes(out, "new and longer"), doctest::Contains(path.c_str()),
                           std::runtime_error);
      const std::string bytes = read_bytes(path);
      CHECK((bytes == "old" || bytes == "new and longer"));
      CHECK(fs::is_symlink(link));
      CHECK(!holds_tmp(folder));
    }
  }
}

// Tests a lack of memory at each allocation of a training, an evaluation, a report and an import.

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
