#include "train/run/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// Returns whether the path still names the open folder.
bool is_at(int descriptor, const std::string& folder) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(folder.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Returns the last written one of the checkpoints and best models of these runs; empty if there is
// none.
std::string last_written(const std::vector<std::string>& folders) {
  std::string last;
  fs::file_time_type last_time = fs::file_time_type::min();
  for (const std::string& folder : folders)
    for (const std::string& path : {Run(folder).best(), Run(folder).checkpoint()}) {
      std::error_code missing;
      const fs::file_time_type time = fs::last_write_time(path, missing);
      if (missing || time < last_time) continue;
      last = path;
      last_time = time;
    }
  return last;
}

}  // namespace

// Creates and locks the folder. Delegates first, so that the destructor removes new folders if this
// fails.
RunLock::RunLock(const Run& run, Folder folder) : RunLock(run) {
  do {
    if (folder == Folder::make) make();
    open();
    const Locked locked = try_lock(descriptor_, LOCK_EX);
    if (locked == Locked::by_another) {
      made_.clear();  // the other process uses them now
      throw InputError(
          fmt::format("{}: another process is training into this folder; wait for its end, or use "
                      "another folder",
                      run_.folder()));
    }
    if (locked == Locked::unsupported)
      complain(
          fmt::format("{}: this file system cannot lock the folder: {}; start no other "
                      "training into it",
                      run_.folder(), strerror(errno)));
  } while (!is_at(descriptor_, run_.folder()));  // the other process removed its folder
  // Syncs an existing folder as well: the process that made it may have been killed before.
  sync_folder(folder_of(run_.folder()), run_.folder());
}

// Removes only folders that this object created: the path may name another folder now.
RunLock::~RunLock() {
  if (descriptor_ >= 0 && is_lost()) made_.clear();
  while (!made_.empty()) {
    system_calls().rmdir(made_.back().c_str());  // fails if the folder is not empty
    made_.pop_back();
  }
  if (descriptor_ >= 0) system_calls().close(descriptor_);
}

void RunLock::make() {
  fs::path at;
  for (const fs::path& part : fs::path(run_.folder())) {
    at /= part;
    std::error_code failed;
    if (fs::is_directory(at, failed)) continue;
    expect_input(!fs::exists(at, failed), "{}: {} is a file, not a folder; use another folder",
                 run_.folder(), at.string());
    if (make_folder(at)) made_.push_back(at);
    sync_folder(folder_of(at), at);
  }
}

void RunLock::open() {
  if (descriptor_ >= 0) system_calls().close(descriptor_);
  descriptor_ = system_calls().openat(AT_FDCWD, run_.folder().c_str(), O_RDONLY | O_DIRECTORY);
  expect_input(descriptor_ >= 0 || (errno != ENOENT && errno != ENOTDIR),
               "{}: there is no run to resume; leave out --resume", run_.folder());
  if (descriptor_ < 0)
    throw std::runtime_error(
        fmt::format("{}: cannot open: {}; check the permissions", run_.folder(), strerror(errno)));
}

// Returns whether the folder was moved or removed. Other errors of stat() do not count.
bool RunLock::is_lost() const {
  struct stat named = {};
  if (::stat(run_.folder().c_str(), &named) != 0) return errno == ENOENT || errno == ENOTDIR;
  return !is_at(descriptor_, run_.folder());
}

std::string RunLock::where() const {
  if (!is_lost()) return run_.folder();
  std::error_code unseen;
  const std::string path =
      fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor_), unseen).string();
  return !path.empty() && is_at(descriptor_, path) ? path : "";
}

void RunLock::expect_in_place() const {
  const std::string at = where();
  if (at.empty())
    throw FolderLost(
        fmt::format("{}: the training ends, because the folder was removed; there is no checkpoint",
                    run_.folder()));
  if (at != run_.folder())
    lose(at, "the folder was moved to " + at);
  else if (was_emptied())
    lose(at, "files in it were removed");
}

void RunLock::expect_in_place(const std::string& path, const File& file) const {
  expect_in_place();
  const std::string name = file_name_of(path);
  if (!file.is_at({descriptor_, name, path}))
    lose(run_.folder(), name + " was removed or replaced");
}

// Throws FolderLost for the folder that now is at this path.
void RunLock::lose(const std::string& at, const std::string& reason) const {
  const std::vector<std::string> seeds = seed_folders(at);
  const std::string last = last_written(seeds.empty() ? std::vector{at} : seeds);
  const std::string message =
      fmt::format("{}: the training ends, because {}; last checkpoint: {}", run_.folder(), reason,
                  last.empty() ? "none in " + at : last);
  if (at == run_.folder() || last.empty()) throw FolderLost(message);
  const std::string resumed =
      seeds.empty() ? shell_word(at)
                    : fmt::format("{} --seeds N --out {}", shell_word(Run(seeds.front()).config()),
                                  shell_word(at));
  throw FolderLost(
      fmt::format("{}; to resume: {} train {} --resume", message, own_program(), resumed));
}

// Returns whether the files were removed without the folder.
bool RunLock::was_emptied() const {
  struct stat unused = {};
  const std::string config = file_name_of(run_.config());
  return placed_.contains(config) &&
         ::fstatat(descriptor_, config.c_str(), &unused, AT_SYMLINK_NOFOLLOW) != 0 &&
         errno == ENOENT;
}

FilePlace RunLock::place(const std::string& path) {
  const std::string name = file_name_of(path);
  placed_.insert(name);
  return {descriptor_, name, path};
}

bool RunLock::has_placed(const std::string& path) const {
  return placed_.contains(file_name_of(path));
}

void RunLock::replace(const std::string& path, const std::vector<std::string_view>& parts) {
  expect_in_place();
  write_file_atomically(place(path), parts);
}

// Renames a file in the folder. Returns whether it existed.
bool RunLock::rename_to(const std::string& from, const std::string& to) {
  if (system_calls().renameat(descriptor_, file_name_of(from).c_str(), place(to).name.c_str()) == 0)
    return true;
  if (errno == ENOENT) return false;
  throw FileError(
      fmt::format("{}: cannot rename: {}; check the permissions", from, strerror(errno)));
}

void RunLock::keep_best_before_decay() {
  expect_in_place();
  const FilePlace kept = place(run_.best_before_decay());
  system_calls().unlinkat(descriptor_, kept.name.c_str());
  const std::string best = file_name_of(run_.best());
  if (system_calls().linkat(descriptor_, best.c_str(), kept.name.c_str()) != 0 && errno != ENOENT)
    write_file_atomically(
        kept,
        {read_file(run_.best(),
                   std::numeric_limits<std::int64_t>::max())});  // a file system without hard links
  sync_folder_of(kept);
}

void RunLock::restore_before_decay(bool has_later_best) {
  expect_in_place();
  if (!rename_to(run_.best_before_decay(), run_.best()) && has_later_best)
    system_calls().unlinkat(descriptor_, file_name_of(run_.best()).c_str());
  if (!rename_to(run_.before_decay(), run_.checkpoint()))
    throw FileError(fmt::format("{}: no such file; restore it", run_.before_decay()));
  sync_folder_of(place(run_.checkpoint()));
}

void RunLock::remove_unfinished() {
  for (const std::string& path :
       {run_.config(), run_.checkpoint(), run_.best(), run_.before_decay(),
        run_.best_before_decay(), run_.trace(), run_.profile()})
    tapestry::remove_unfinished(FilePlace{descriptor_, file_name_of(path), path});
}

void RunLock::remove_placed() {
  for (const std::string& name : placed_) system_calls().unlinkat(descriptor_, name.c_str());
  placed_.clear();
}

}  // namespace tapestry
