#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/new_folder.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/training.hpp"

// Tests that files are written into the locked folder of a run, and files of others are not read,
// overwritten or removed.
namespace tapestry {
namespace {

// Every file of a run occurs.
const Words everything = "train.tensorboard=true train.samples=true";

class AtFirstEvaluation final : public Callback {
 public:
  explicit AtFirstEvaluation(std::function<void()> act) : act_(std::move(act)) {}
  void on_metrics(const MetricsLine& line) override {
    if (line.split == "val" && !std::exchange(is_done_, true)) act_();
  }

 private:
  std::function<void()> act_;
  bool is_done_ = false;
};

// Trains the text config into a folder in this process. Calls `interfere` at its first evaluation,
// before the best model is written. Returns the message of the error that ended it.
std::string train_while(const RunFixture& fixture, const std::string& run,
                        const std::function<void()>& somebody_does) {
  AtFirstEvaluation callback(somebody_does);
  const TrainIntoOptions options{.quiet = true, .callbacks = {&callback}};
  std::string message;
  try {
    train_into(Run(fixture.path(run)),
               load_config(fixture.path("text.toml"), {everything[0], everything[1]}), options);
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  return message;
}

TEST_SUITE_BEGIN("run folder");

TEST_CASE_FIXTURE(RunFixture, "bug: a training whose folder was replaced wrote over the new run") {
  Words other = "seed=7" + everything;
  must_train("text", "whole", other);
  const std::string run = path("run");
  std::map<std::string, std::string> second;
  const std::string message = train_while(*this, "run", [&] {
    fs::remove_all(run);
    must_train("text", "run", other);
    second = files_of(run);
  });
  CHECK(message ==
        run + ": the training ends, because the folder was removed; there is no checkpoint");
  CHECK(files_of(run) == second);
  check_same_run(*this, "run", "whole");
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: a training whose folder was moved lost its files and ended with status 0") {
  must_train("text", "whole", everything);
  const std::string run = path("run"), moved = path("mo ved");
  const std::string message = train_while(*this, "run", [&] { fs::rename(run, moved); });
  check_says(message, {run + ": the training ends, because the folder was moved to " + moved +
                       "; last checkpoint: " + moved + "/checkpoint.safetensors; to resume: "});
  CHECK(!fs::exists(run));
  CHECK(load_checkpoint(checkpoint("mo ved")).state.step == 5);
  check_says(read_bytes(moved + "/sessions.jsonl"), {"failed: ", "the folder was moved to"});
  const Finished resumed = tapestry_run("train {} --resume", moved);
  REQUIRE_MESSAGE(resumed.status == 0, resumed.err);
  check_says(resumed.out, {"from step 5"});
  check_same_run(*this, "mo ved", "whole");
}

TEST_CASE_FIXTURE(RunFixture, "run folder: a training whose files are removed ends with an error") {
  const std::string run = path("run");
  const std::string message = train_while(*this, "run", [&] {
    for (const auto& [name, bytes] : files_of(run)) fs::remove(fs::path(run) / name);
  });
  CHECK(message ==
        run + ": the training ends, because files in it were removed; last checkpoint: none in " +
            run);
  CHECK(!fs::exists(run));
  CHECK(train_while(*this, "kept", [&] {
          fs::remove(path("kept/config.toml"));
        }).ends_with("last checkpoint: " + checkpoint("kept")));
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: checkpoints in a moved folder of seeds were not found") {
  const Run run(path("run"));
  const std::string moved = path("moved");
  const RunLock lock(run, RunLock::Folder::make);
  for (const std::string file : {"seed-3/metrics.jsonl", "seed-3/best.safetensors"})
    write("run/" + file, "x");
  fs::rename(run.folder(), moved);
  CHECK_THROWS_WITH_AS(
      lock.expect_in_place(),
      fmt::format("{}: the training ends, because the folder was moved to {}; last checkpoint: "
                  "{}/seed-3/best.safetensors; to resume: tapestry train {}/seed-3/config.toml "
                  "--seeds N --out {} --resume",
                  run.folder(), moved, moved, moved, moved)
          .c_str(),
      FolderLost);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a training removed a folder that it had lost") {
  const Run run(path("run"));
  {
    const RunLock lock(run, RunLock::Folder::make);
    fs::remove(run.folder());
    fs::create_directory(run.folder());  // by somebody else
    CHECK(lock.where().empty());
    CHECK_THROWS_AS(lock.expect_in_place(), FolderLost);
  }
  CHECK(fs::exists(run.folder()));
}

TEST_CASE_FIXTURE(RunFixture, "bug: a training overwrote or removed files found in its folder") {
  for (const fs::path file : Run("").files())
    for (const std::string& name : {file.filename().string(), file.filename().string() + ".tmp"}) {
      CAPTURE(name);
      fs::remove_all(path("run"));
      write("run/" + name, "somebody's");
      for (const bool resume : {false, true}) {
        const Finished refused = train("toy", "run", resume ? Words("--resume") : everything);
        check_fails(refused, {});
        CHECK(files_of(path("run")) == std::map<std::string, std::string>{{name, "somebody's"}});
      }
    }
  fs::remove_all(path("run"));
  write("run/notes.txt", "mine");
  must_train("toy", "run");  // which writes no file with this name
  CHECK(read("run/notes.txt") == "mine");
  fs::create_directory(path("linked"));
  fs::create_symlink("nowhere", path("linked/sessions.jsonl"));
  check_says(train("toy", "linked").err, {"linked/sessions.jsonl: already exists"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: commands waited forever for a pipe in a run's folder") {
  must_train("text", "run", "train.samples=true");
  const std::string run = this->path("run");
  for (const std::string name :
       {"metrics.jsonl", "sessions.jsonl", "samples.jsonl", "checksums.jsonl"}) {
    const std::string path = run + "/" + name;
    const std::string bytes = read_bytes(path);
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    std::vector<Words> commands = {{"train", run, "--resume", "train.steps=41"}};
    if (name == "metrics.jsonl")
      commands.insert(commands.end(), {{"watch", run, "--once"}, {"verify", run}});
    if (name == "metrics.jsonl" || name == "sessions.jsonl") commands.push_back({"compare", run});
    if (name != "checksums.jsonl")
      commands.push_back({"report", run, "--out", this->path("page.html")});
    for (const Words& command : commands) {
      CAPTURE(name);
      CAPTURE(command.front());
      check_fails(run_program(Words("timeout 300 {}", paths::program) + with_sets(command)),
                  {name + ": is a pipe or a device"});
    }
    fs::remove(path);
    write("run/" + name, bytes);
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: --resume wrote through links out of a run's folder") {
  must_train("text", "run", "train.samples=true");
  const std::string config = read("run/config.toml");
  for (const std::string name :
       {"metrics.jsonl", "sessions.jsonl", "samples.jsonl", "checksums.jsonl"}) {
    CAPTURE(name);
    const std::string file = path("run/" + name), outside = path("outside"),
                      kept = read_bytes(file);
    fs::rename(file, outside);
    fs::create_symlink(outside, file);
    check_fails(train_here("text", "run", "--resume train.samples=true train.steps=60"),
                {"run/" + name + ": is a link", "replace the link with the file"});
    CHECK(read_bytes(outside) == kept);
    CHECK(read("run/config.toml") == config);
    {  // a link that is made after the checks
      RunLock lock(Run(path("run")), RunLock::Folder::find);
      CHECK_THROWS_WITH_AS(LinesFile(lock, file).open(0, {}),
                           doctest::Contains((name + ": is a link").c_str()), InputError);
    }
    CHECK(read_bytes(outside) == kept);
    fs::remove(file);
    fs::rename(outside, file);
  }
  fs::create_symlink("run", path("linked"));
  must_train("text", "linked", "--resume train.samples=true train.steps=41");
  CHECK(fs::is_symlink(path("linked")));
  CHECK(load_checkpoint(checkpoint("run")).state.step == 41);
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: the removal of a JSONL file during a training was not noticed") {
  for (const std::string name : {"metrics.jsonl", "checksums.jsonl", "samples.jsonl"})
    for (const bool is_replaced : {false, true}) {
      CAPTURE(name);
      const std::string run = path("run");
      fs::remove_all(run);
      const std::string message = train_while(*this, "run", [&] {
        fs::remove(fs::path(run) / name);
        if (is_replaced) write("run/" + name, "");
      });
      check_says(message, {run + ": the training ends, because " + name +
                           " was removed or replaced; last checkpoint: "});
      check_says(read("run/sessions.jsonl"), {"failed: "});
    }
}

// Replaces system calls: locking a file or syncing a folder fails.
class Unsupported final : public SystemCalls {
 public:
  explicit Unsupported(std::string call, int error) : call_(std::move(call)), error_(error) {
    choose_system_calls(this);
  }
  ~Unsupported() override { choose_system_calls(nullptr); }

  int flock(int file, int operation) override {
    return call_ == "flock" ? fail() : SystemCalls::flock(file, operation);
  }
  int fsync(int file) override {
    struct stat found = {};
    const bool is_folder = ::fstat(file, &found) == 0 && S_ISDIR(found.st_mode);
    return call_ == "fsync" && is_folder ? fail() : SystemCalls::fsync(file);
  }

 private:
  int fail() const {
    errno = error_;
    return -1;
  }
  std::string call_;
  int error_;
};

TEST_CASE_FIXTURE(RunFixture,
                  "bug: without file locks a training said that another process had the lock") {
  const Run run(path("run"));
  for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    CAPTURE(error);
    const Unsupported calls("flock", error);
    const std::string warning = path("warning");
    {
      const StreamToFile to_file(stderr, warning);
      CHECK(train_while(*this, "run", [] {}).empty());
    }
    CHECK(read_bytes(warning) ==
          fmt::format("tapestry: {}: this file system cannot lock the folder: {}; start no other "
                      "training into it\n",
                      run.folder(), std::strerror(error)));
    CHECK(!is_trained_into(run));
    CHECK(load_checkpoint(run.checkpoint()).state.step == 40);
    fs::remove_all(run.folder());
  }
  const Unsupported calls("flock", EWOULDBLOCK);
  check_says(train_while(*this, "run", [] {}), {"another process is training into this folder"});
  fs::create_directory(run.folder());
  CHECK(is_trained_into(run));
}

TEST_CASE_FIXTURE(RunFixture, "bug: a file system that cannot sync folders prevented trainings") {
  const std::string run = path("run");
  {
    const Unsupported calls("fsync", EINVAL);
    CHECK(train_while(*this, "run", [] {}).empty());
    write_file_atomically(path("file"), {"bytes"});
    NewFolder folder(path("folder"));
    folder.write("file", {"bytes"});
    folder.finish();
  }
  CHECK(load_checkpoint(checkpoint("run")).state.step == 40);
  CHECK(read("file") == read("folder/file"));
  const Unsupported calls("fsync", EIO);
  CHECK_THROWS_AS(write_file_atomically(path("file"), {"bytes"}), FileError);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a limit of file sizes killed a training without a message" *
                                  not_sanitized("its own files are larger")) {
  const std::string command =
      fmt::format("ulimit -f 16; exec {} train {} --quiet --out {} --set train.log_every=1",
                  paths::program, path("toy.toml"), path("run"));
  check_fails(run_program({"sh", "-c", command}),
              {path("run/"), "cannot write: File too large", "ulimit -f"}, 1);
  CHECK(files_of(path("run")).count("checkpoint.safetensors.tmp") == 0);
}

TEST_CASE_FIXTURE(RunFixture, "bug: --resume refused the folder of its own run") {
  must_train("toy", "whole");
  must_train("toy", "run", "train.steps=17 optim.decay_steps=40");
  const auto train = [&](const Words& words) {
    return tapestry_run("train run" + words, {.folder = path()});
  };
  const auto check_refused = [&](const Words& words, const Strings& parts) {
    check_fails(here("train run" + words), parts);
  };
  check_refused({}, {"run: is the folder of a run", "add --resume", "run/config.toml"});
  check_refused({"--resume", "--out", "other"},
                {"--out other: differs from run", "leave out --out"});
  CHECK(!has("other"));
  check_refused({"--resume", "model.width=8"}, {"model.width (16, now 8)"});
  CHECK(train("--resume --out ./run/").status == 0);
  const Finished resumed = train("--resume train.steps=40");
  CHECK_MESSAGE(resumed.status == 0, resumed.err);
  check_says(resumed.out, {"from step 17"});
  CHECK(has("run/config.toml"));
  CHECK(!has("runs"));
  check_same_checkpoint(checkpoint("run"), checkpoint("whole"));
  must_train("toy", "seeds", "--seeds 2 train.steps=3");
  check_fails(run_here("train {} --resume", path("seeds")),
              {"contains runs of several seeds; to resume", "seed-1/config.toml --seeds N"});
}

TEST_SUITE_END();

// Replaces system calls, of which one fails.
class FailingCall final : public SystemCalls {
 public:
  explicit FailingCall(int number) : left_(number) { choose_system_calls(this); }
  ~FailingCall() override { choose_system_calls(nullptr); }
  bool has_failed() const { return left_ < 0; }

  int openat(int folder, const char* path, int flags) override {
    return fails() ? -1 : SystemCalls::openat(folder, path, flags);
  }
  ssize_t write(int file, const void* bytes, std::size_t count) override {
    return fails() ? -1 : SystemCalls::write(file, bytes, count);
  }
  int fsync(int file) override { return fails() ? -1 : SystemCalls::fsync(file); }
  int renameat(int folder, const char* from, const char* to) override {
    return fails() ? -1 : SystemCalls::renameat(folder, from, to);
  }
  int mkdir(const char* path) override { return fails() ? -1 : SystemCalls::mkdir(path); }

 private:
  bool fails() {
    errno = EIO;
    return left_-- == 0;
  }
  int left_;
};

void make(const std::string& path) {
  NewFolder folder(path);
  folder.write("one", {"1"});
  folder.write("two", {"2", "2"});
  folder.finish();
}

TEST_SUITE_BEGIN("files");

TEST_CASE_FIXTURE(TemporaryFolder,
                  "NewFolder: exists complete or not at all, whichever call fails") {
  const std::string path = this->path("new");
  int failures = 0;
  for (int call = 0;; ++call) {
    CAPTURE(call);
    fs::remove_all(path);
    std::string message;
    bool has_failed = false;
    {
      const FailingCall failing(call);
      try {
        make(path);
      } catch (const std::runtime_error& error) {
        message = error.what();
      }
      has_failed = failing.has_failed();
    }
    CHECK(std::distance(fs::directory_iterator(this->path()), {}) == fs::exists(path));
    if (fs::exists(path)) {
      CHECK(read_bytes(path + "/one") == "1");
      CHECK(read_bytes(path + "/two") == "22");
    }
    if (!has_failed) {
      CHECK(fs::exists(path));
      break;
    }
    ++failures;
    check_says(message, {path, "Input/output error"});
  }
  CHECK(failures > 10);
}

TEST_CASE_FIXTURE(TemporaryFolder, "NewFolder: replaces only an empty folder") {
  const std::string path = this->path("new");
  fs::create_directory(path);
  make(path + "/");
  CHECK(read_bytes(path + "/two") == "22");
  CHECK_ERROR(make(path), path + ": already exists");
  CHECK(read_bytes(path + "/two") == "22");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: files of a killed export stayed, and prevented the next") {
  const std::string path = this->path("new"), file = this->path("file");
  write(".new.99999999-1.tmp/one", "1");  // of a killed process
  write(".file.99999999-2.tmp", "beginn");
  write(".new.99999999-3.tmp/one", "1");  // of processes that live: they hold the lock
  write(".file.99999999-4.tmp", "beginn");
  const int folder = open(this->path(".new.99999999-3.tmp").c_str(), O_RDONLY),
            other = open(this->path(".file.99999999-4.tmp").c_str(), O_RDONLY);
  REQUIRE(flock(folder, LOCK_EX | LOCK_NB) == 0);
  REQUIRE(flock(other, LOCK_EX | LOCK_NB) == 0);
  const Strings kept = {
      ".new.99999999-3.tmp",   ".file.99999999-4.tmp", ".new.mine.tmp", ".new.99999999-1.tmp.mine",
      ".newer.99999999-1.tmp", "new.tmp/mine",         "file.tmp"};
  for (const std::string& name : kept)
    if (!has(name)) write(name, "mine");
  fs::create_symlink("new.tmp", this->path(".new.99999999-5.tmp"));
  make(path);
  write_file_atomically(file, {"whole"});
  CHECK(!has(".new.99999999-1.tmp"));
  CHECK(!has(".file.99999999-2.tmp"));
  CHECK(fs::is_symlink(this->path(".new.99999999-5.tmp")));
  for (const std::string& name : kept) CHECK_MESSAGE(has(name), name);
  CHECK(read_bytes(path + "/two") == "22");
  CHECK(read_bytes(file) == "whole");
  CHECK(std::distance(fs::directory_iterator(this->path()), {}) == 10);
  close(folder);
  close(other);
}

TEST_CASE("ScratchFolder: two with one name differ, and each is removed with its files") {
  std::string path;
  {
    const ScratchFolder one("test"), other("test");
    CHECK(one.path() != other.path());
    path = one.path();
    make(path + "/new");
    CHECK(fs::is_empty(other.path()));
  }
  CHECK(!fs::exists(path));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
