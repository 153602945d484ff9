#include "train/run/new_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "autograd/check.hpp"
#include "train/run/atomic_file.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// Returns the path without trailing slashes.
std::string named(const std::string& path) {
  const std::size_t last = path.find_last_not_of('/');
  return last == std::string::npos ? path : path.substr(0, last + 1);
}

}  // namespace

void expect_new_file(const std::string& path) {
  std::error_code failed;
  const fs::file_status found = fs::symlink_status(path, failed);
  expect_input(found.type() != fs::file_type::none, "{}: {}; give another name", path,
               failed.message());
  expect_input(!fs::exists(found), "{}: already exists; give the name of a new file", path);
  expect_input(fs::is_directory(folder_of(path), failed),
               "{}: the folder {} does not exist; create it first", path, folder_of(path));
}

NewFolder::NewFolder(const std::string& path) : path_(named(path)) {
  std::error_code unseen;
  const fs::file_status found = fs::symlink_status(path_, unseen);
  expect_input(!fs::exists(found) || (fs::is_directory(found) && fs::is_empty(path_, unseen)),
               "{}: already exists; give the name of a new folder, or remove this one", path_);
  expect_input(fs::is_directory(folder_of(path_), unseen),
               "{}: the folder {} does not exist; create it first", path_, folder_of(path_));
  do aside_ = new_temporary(path_);
  while (!make_folder(aside_, path_));
  try {
    folder_.emplace(aside_, O_RDONLY | O_DIRECTORY, path_);
  } catch (...) {
    system_calls().rmdir(aside_.c_str());
    throw;
  }
  try_lock(folder_->descriptor(), LOCK_EX);
}

NewFolder::~NewFolder() {
  for (const std::string& name : written_)
    system_calls().unlinkat(folder_->descriptor(), name.c_str());
  if (!aside_.empty()) system_calls().rmdir(aside_.c_str());
}

void NewFolder::write(const std::string& name, const std::vector<std::string_view>& parts) {
  written_.push_back(name);
  write_file_atomically(FilePlace{folder_->descriptor(), name, (fs::path(path_) / name).string()},
                        parts);
}

void NewFolder::finish() {
  if (system_calls().renameat(AT_FDCWD, aside_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    const bool exists = error == ENOTEMPTY || error == EEXIST || error == ENOTDIR;
    throw std::runtime_error(fmt::format(
        "{}: cannot rename {} to this name: {}; {}", path_, aside_, std::strerror(error),
        exists ? "give the name of a new folder" : "check the disk and permissions"));
  }
  written_.clear();
  aside_.clear();
  sync_folder(folder_of(path_), path_);
}

ScratchFolder::ScratchFolder(const std::string& name) {
  std::error_code unusable;
  path_ = (fs::temp_directory_path(unusable) / fmt::format("tapestry-{}-XXXXXX", name)).string();
  const char* asked = std::getenv("TMPDIR");
  expect_input(
      !unusable && ::mkdtemp(path_.data()),
      "TMPDIR={}: cannot create a temporary folder there; name a folder that can be written "
      "to",
      asked ? asked : "/tmp");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tapestry
