#pragma once

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "train/run/atomic_file.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// The folder of the training was moved, removed or replaced.
class FolderLost final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Keeps other processes from training into the same folder while it exists. The folder is read only
// after it is locked, because its files may change before. The lock belongs to the folder, not to
// its path: all files of a run are written through it into the locked folder.
class RunLock {
 public:
  enum class Folder { make, find };

  // Locks the folder. Folder::make makes it and its parents if they are missing, Folder::find
  // throws InputError then. Throws InputError if another process holds the lock, and
  // std::runtime_error if the folder cannot be made.
  RunLock(const Run& run, Folder folder);
  ~RunLock();  // removes the folders that it made if they are empty
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const Run& run() const { return run_; }

  // Throws FolderLost, which says where the last checkpoint is, if the path no longer leads to the
  // locked folder, or the config that was written is no longer there.
  void expect_in_place() const;

  // Returns the path of the locked folder, also if it was moved; empty if it was removed.
  std::string where() const;

  // Returns the place in the locked folder of the run's file with this path.
  FilePlace place(const std::string& path);

  // Returns whether place() was called for this file.
  bool has_placed(const std::string& path) const;

  // Writes a file as write_file_atomically does. Throws as expect_in_place does.
  void replace(const std::string& path, const std::vector<std::string_view>& parts);

  // Removes the unfinished files of a process that was killed.
  void remove_unfinished();

  // Removes the files for which place() was called, of a new run that is refused.
  void remove_placed();

 private:
  explicit RunLock(Run run) : run_(std::move(run)) {}
  void make();
  void open();
  bool is_lost() const;
  bool was_emptied() const;

  Run run_;
  int descriptor_ = -1;
  std::vector<std::string> made_;  // folders, the outermost first
  std::set<std::string> placed_;   // names of files
};

}  // namespace tapestry
