#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "tests/support/process.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/new_folder.hpp"

namespace tapestry {
namespace {

// The system's calls, of which one fails.
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

TEST_CASE_FIXTURE(TemporaryFolder, "NewFolder: is there whole or not at all, whatever call fails") {
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

TEST_CASE_FIXTURE(TemporaryFolder, "NewFolder: replaces an empty folder, and nothing else") {
  const std::string path = this->path("new");
  fs::create_directory(path);
  make(path + "/");
  CHECK(read_bytes(path + "/two") == "22");
  check_says(message_of([&] { make(path); }), {path + ": already exists"});
  CHECK(read_bytes(path + "/two") == "22");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: what a killed export wrote stayed, and stopped the next") {
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

TEST_CASE("ScratchFolder: two of a name differ, and each is removed with what it holds") {
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
