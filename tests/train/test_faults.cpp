#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/disk.hpp"
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

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
