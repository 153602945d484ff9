#pragma once

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "train/run/atomic_file.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// The error for a run's folder that was moved, removed or replaced.
class FolderLost final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A lock that prevents other processes from training into the same folder. A training reads the
// folder's files after it has locked the folder, because another process may change them before.
// The lock belongs to the folder, not to its path: all files of a run are written into the locked
// folder, wherever that is.
class RunLock {
 public:
  enum class Folder { make, find };

  // Locks the folder, or prints a warning if the file system has no locks. Folder::make creates it
  // and missing parents; with Folder::find a missing folder throws InputError. Throws InputError if
  // another process holds the lock or a part of the path is a file, and std::runtime_error if the
  // folder cannot be created or opened.
  RunLock(const Run& run, Folder folder);
  ~RunLock();  // removes the folders that it created, if they are empty
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const Run& run() const { return run_; }

  // Throws FolderLost, which names the place of the last checkpoint, if the path no longer names
  // the locked folder, or if the config that was written is missing.
  void expect_in_place() const;
  // Throws FolderLost also if the path in the folder no longer names this file.
  void expect_in_place(const std::string& path, const File& file) const;

  // Returns the current path of the locked folder, also if it was moved; empty if it was removed.
  std::string where() const;

  // Returns the place of the run's file with this path in the locked folder.
  FilePlace place(const std::string& path);

  // Returns whether place() was called for this file.
  bool has_placed(const std::string& path) const;

  // Writes a file as write_file_atomically does. Throws as write_file_atomically and
  // expect_in_place do.
  void replace(const std::string& path, const std::vector<std::string_view>& parts);

  // Keeps best.safetensors, if it exists, also as best_before_decay.safetensors. Throws FileError
  // if that fails, and as expect_in_place does.
  void keep_best_before_decay();

  // Makes before_decay.safetensors the last checkpoint, and best_before_decay.safetensors the best
  // one; without the latter, removes a best one that is later (`has_later_best`). May be repeated
  // after a kill. Throws FileError if that fails, and as expect_in_place does.
  void restore_before_decay(bool has_later_best);

  // Removes the temporary files of a killed process. Throws FileError if that fails.
  void remove_unfinished();

  // Removes the files for which place() was called, if a new run is rejected.
  void remove_placed();

 private:
  explicit RunLock(Run run) : run_(std::move(run)) {}
  void make();
  void open();
  bool is_lost() const;
  [[noreturn]] void lose(const std::string& at, const std::string& reason) const;
  bool was_emptied() const;
  bool rename_to(const std::string& from, const std::string& to);

  Run run_;
  int descriptor_ = -1;
  std::vector<std::string> made_;  // created folders, the outermost first
  std::set<std::string> placed_;   // names of files
};

}  // namespace tapestry
