#include "train/run/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "train/run/system_calls.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw FileError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

std::string temporary_of(const std::string& path) { return path + ".tmp"; }

bool is_folder(const std::string& path) {
  std::error_code unseen;
  return fs::is_directory(path, unseen);
}

}  // namespace

File::File(const std::string& path, int flags, const std::string& shown)
    : path_(shown.empty() ? path : shown), descriptor_(system_calls().open(path.c_str(), flags)) {
  if (descriptor_ >= 0) return;
  const int error = errno;
  if (error == ENOENT && !is_folder(folder_of(path)))
    throw FileError(fmt::format("{}: cannot open: there is no folder {}", path_, folder_of(path)));
  errno = error;
  fail(path_, "cannot open");
}

File::~File() {
  if (descriptor_ >= 0) system_calls().close(descriptor_);
}

void File::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = system_calls().write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot write");
    bytes.remove_prefix(written);
  }
}

void File::truncate(std::int64_t bytes) {
  if (system_calls().ftruncate(descriptor_, bytes) != 0) fail(path_, "cannot cut");
}

void File::sync() {
  if (system_calls().fsync(descriptor_) != 0) fail(path_, "cannot sync");
}

void File::close() {
  if (system_calls().close(std::exchange(descriptor_, -1)) != 0) fail(path_, "cannot close");
}

void write_file_atomically(const std::string& path, const std::vector<std::string_view>& parts) {
  stream_file_atomically(path, [&](File& file) {
    for (const std::string_view part : parts) file.write(part);
  });
}

void stream_file_atomically(const std::string& path, const std::function<void(File&)>& write) {
  const std::string temporary = temporary_of(path);
  try {
    // Never through what lies there already: a link, a pipe, or what a killed process left.
    system_calls().unlink(temporary.c_str());
    File file(temporary, O_WRONLY | O_CREAT | O_EXCL, path);
    write(file);
    file.sync();
    file.close();
    if (system_calls().rename(temporary.c_str(), path.c_str()) != 0) fail(path, "cannot rename");
  } catch (...) {
    system_calls().unlink(temporary.c_str());
    throw;
  }
  sync_folder(folder_of(path), path);
}

void remove_unfinished(const std::string& path) {
  const std::string temporary = temporary_of(path);
  std::error_code unseen;
  if (!fs::is_regular_file(fs::symlink_status(temporary, unseen))) return;
  if (system_calls().unlink(temporary.c_str()) != 0) fail(temporary, "cannot remove");
}

bool make_folder(const std::string& path) {
  if (system_calls().mkdir(path.c_str()) == 0) return true;
  if (errno == EEXIST && is_folder(path)) return false;
  fail(path, "cannot be made a folder");
}

std::string folder_of(const std::string& path) {
  const fs::path named(path.ends_with('/') ? path.substr(0, path.find_last_not_of('/') + 1) : path);
  const std::string folder = named.parent_path().string();
  return folder.empty() ? "." : folder;
}

void sync_folder(const std::string& folder, const std::string& shown) {
  if (::access(folder.c_str(), R_OK) != 0 && errno == EACCES) return;  // syncing takes reading it
  File file(folder, O_RDONLY | O_DIRECTORY, shown);
  file.sync();
  file.close();
}

}  // namespace tapestry
