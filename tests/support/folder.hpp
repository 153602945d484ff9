#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>

#include "autograd/check.hpp"
#include "tests/support/aliases.hpp"

namespace tapestry {

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "test: cannot read {}", path);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// A folder that is removed at the end of its test. It is in memory if possible, because tests write
// thousands of files.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& parent = default_parent()) {
    static std::atomic<int> made = 0;  // tests make folders in several threads
    path_ = fs::path(parent) / fmt::format("tapestry-test-{}-{}", getpid(), made++);
    fs::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  bool has(const std::string& name) const { return fs::exists(path_ / name); }
  std::string read(const std::string& name) const { return read_bytes(path(name)); }
  std::string write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path(name);
  }

 private:
  static std::string default_parent() {
    const bool memory = access("/dev/shm", R_OK | W_OK | X_OK) == 0;
    return memory ? "/dev/shm" : fs::temp_directory_path().string();
  }

  fs::path path_;
};

}  // namespace tapestry
