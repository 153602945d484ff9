#include "train/run/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

SystemCalls* chosen_calls = nullptr;

[[noreturn]] void fail(const std::string& path, const char* what) {
  const bool is_unusable = errno == EISDIR || errno == ENOTDIR || errno == ENAMETOOLONG;
  const char* advice = errno == EFBIG ? "; raise the limit on the size of files (ulimit -f)"
                       : is_unusable  ? "; give another name"
                                      : "; check the disk and permissions";
  throw FileError(fmt::format("{}: {}: {}{}", path, what, std::strerror(errno), advice));
}

// Returns the beginning of the names of new_temporary(): ".NAME.".
std::string beginning_of_temporary(const std::string& path) {
  // Maximum size of NAME, with which the whole fits a file name.
  constexpr std::size_t most_bytes = 200;
  return "." + file_name_of(path).substr(0, most_bytes) + ".";
}

// Removes what killed processes left under names of new_temporary(path). An error leaves it. The
// lock tells of processes of other machines; one of this machine may not have locked its file yet.
void remove_abandoned(const std::string& path) {
  const std::string beginning = beginning_of_temporary(path);
  std::error_code unseen;
  for (fs::directory_iterator at(folder_of(path), unseen), end; at != end; at.increment(unseen)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with(beginning) || !name.ends_with(unfinished_ending)) continue;
    name.erase(0, beginning.size());
    if (name.find_first_not_of("0123456789-") != name.rfind(unfinished_ending)) continue;
    if (::kill(std::atoi(name.c_str()), 0) == 0 || errno == EPERM) continue;
    const int left = ::open(at->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (left < 0) continue;
    if (try_lock(left, LOCK_EX) == Locked::yes) fs::remove_all(at->path(), unseen);
    ::close(left);
  }
}

std::string temporary_of(const std::string& path) { return path + unfinished_ending; }

constexpr const char* link_message =
    "{}: is a link; a training writes into the folder of its run only; replace the link with the "
    "file";

// Writes a file with a temporary name in the same folder and renames it, without syncing the
// folder.
void replace(const FilePlace& place, const std::string& temporary,
             const std::function<void(File&)>& write) {
  File file(FilePlace{place.folder, temporary, place.path}, O_WRONLY | O_CREAT | O_EXCL);
  try {
    write(file);
    file.sync();
    file.close();
    if (system_calls().renameat(place.folder, temporary.c_str(), place.name.c_str()) != 0)
      fail(place.path, "cannot rename the temporary file to this name");
  } catch (...) {
    system_calls().unlinkat(place.folder, temporary.c_str());
    throw;
  }
}

auto writing(const std::vector<std::string_view>& parts) {
  return [&](File& file) {
    for (const std::string_view part : parts) file.write(part);
  };
}

}  // namespace

SystemCalls& system_calls() {
  static SystemCalls own;
  return chosen_calls ? *chosen_calls : own;
}

void choose_system_calls(SystemCalls* calls) { chosen_calls = calls; }

File::File(const std::string& path, int flags, const std::string& shown)
    : File(FilePlace{AT_FDCWD, path, shown.empty() ? path : shown}, flags) {}

File::File(const FilePlace& place, int flags)
    : path_(place.path),
      descriptor_(system_calls().openat(place.folder, place.name.c_str(),
                                        flags | (place.folder == AT_FDCWD ? 0 : O_NOFOLLOW))) {
  if (descriptor_ >= 0) return;
  const int error = errno;
  expect_input(error != ELOOP || place.folder == AT_FDCWD, link_message, path_);
  const std::string folder = folder_of(place.name);
  if (error == ENOENT && !is_folder(folder))
    throw FileError(
        fmt::format("{}: cannot open: there is no folder {}; create it", path_, folder));
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
  if (system_calls().ftruncate(descriptor_, bytes) != 0) fail(path_, "cannot truncate");
}

void File::sync() {
  if (system_calls().fsync(descriptor_) != 0) fail(path_, "cannot sync");
}

void File::close() {
  if (system_calls().close(std::exchange(descriptor_, -1)) != 0) fail(path_, "cannot close");
}

bool File::is_at(const FilePlace& place) const {
  struct stat opened = {}, named = {};
  if (::fstatat(place.folder, place.name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0)
    return errno != ENOENT;
  return ::fstat(descriptor_, &opened) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

Locked try_lock(int descriptor, int kind) {
  if (system_calls().flock(descriptor, kind | LOCK_NB) == 0) return Locked::yes;
  return errno == EWOULDBLOCK ? Locked::by_another : Locked::unsupported;
}

void expect_no_link(const std::string& path) {
  std::error_code unseen;
  expect_input(!fs::is_symlink(path, unseen), link_message, path);
}

std::string new_temporary(const std::string& path) {
  remove_abandoned(path);
  for (int number = 1;; ++number) {
    const fs::path name = fmt::format("{}{}-{}{}", beginning_of_temporary(path), ::getpid(), number,
                                      unfinished_ending);
    const fs::path candidate = fs::path(path).parent_path() / name;
    std::error_code unseen;
    if (!fs::exists(fs::symlink_status(candidate, unseen))) return candidate.string();
  }
}

void write_file_atomically(const std::string& path, const std::vector<std::string_view>& parts) {
  stream_file_atomically(path, writing(parts));
}

void write_file_atomically(const FilePlace& place, const std::vector<std::string_view>& parts) {
  const std::string temporary = temporary_of(place.name);
  // An existing file of this name is removed first: a link, a pipe, or the file of a killed
  // process.
  system_calls().unlinkat(place.folder, temporary.c_str());
  replace(place, temporary, writing(parts));
  sync_folder_of(place);
}

void stream_file_atomically(const std::string& path, const std::function<void(File&)>& write) {
  replace({AT_FDCWD, path, path}, new_temporary(path), [&](File& file) {
    try_lock(file.descriptor(), LOCK_EX);  // without locks, nothing is taken for abandoned
    write(file);
  });
  sync_folder(folder_of(path), path);
}

void remove_unfinished(const FilePlace& place) {
  const std::string temporary = temporary_of(place.name);
  struct stat found = {};
  if (::fstatat(place.folder, temporary.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!S_ISREG(found.st_mode)) return;
  if (system_calls().unlinkat(place.folder, temporary.c_str()) != 0)
    fail(temporary_of(place.path), "cannot remove");
}

bool make_folder(const std::string& path, const std::string& shown) {
  if (system_calls().mkdir(path.c_str()) == 0) return true;
  if (errno == EEXIST) {
    if (is_folder(path)) return false;
    throw FileError(
        fmt::format("{}: cannot create the folder: a file has this name; give another name", path));
  }
  fail(shown.empty() ? path : shown, "cannot create the folder");
}

std::string folder_of(const std::string& path) {
  const fs::path named(path.ends_with('/') ? path.substr(0, path.find_last_not_of('/') + 1) : path);
  const std::string folder = named.parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string file_name_of(const std::string& path) { return fs::path(path).filename().string(); }

void sync_folder(const std::string& folder, const std::string& shown) {
  // Syncing needs permission to read the folder.
  if (::access(folder.c_str(), R_OK) != 0 && errno == EACCES) return;
  File file(folder, O_RDONLY | O_DIRECTORY, shown);
  sync_folder_of({file.descriptor(), "", shown});
  file.close();
}

// CIFS, 9p and others answer EINVAL: they have no call that syncs a folder.
void sync_folder_of(const FilePlace& place) {
  if (system_calls().fsync(place.folder) != 0 && errno != EINVAL && errno != EOPNOTSUPP)
    fail(place.path, "cannot sync its folder");
}

}  // namespace tapestry
