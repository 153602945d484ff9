#pragma once

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "train/run/atomic_file.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// The folder that is trained into was moved, removed or replaced.
class FolderLost final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Keeps other processes from training into the same folder, until it goes or the process ends.
// What is in the folder is looked at under the lock: before, it may still change. The lock is the
// folder's own, not its path's: all of a run's files are written through it into the locked folder.
class RunLock {
 public:
  enum class Folder { make, find };

  // Makes the folder where it is missing, with those above it, or else refuses that (InputError),
  // as when another process holds the lock. std::runtime_error where it cannot be made.
  RunLock(const Run& run, Folder folder);
  ~RunLock();  // takes the folders that it made away again, as far as nothing was put into them
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const Run& run() const { return run_; }

  // Throws FolderLost, which says where the last checkpoint is, where the run's path leads to
  // another folder by now, or nowhere, or the config that was written is no longer in the folder.
  void expect_in_place() const;

  // Returns the path of the locked folder: the run's, or the one that it was moved to. Empty: it
  // was removed.
  std::string where() const;

  // Returns the place in the locked folder of a file of the run, which has this path.
  FilePlace place(const std::string& path);

  // Whether such a file has a place by now: it was written, or this was tried.
  bool has_placed(const std::string& path) const;

  // Writes such a file as write_file_atomically does. Throws as expect_in_place does.
  void replace(const std::string& path, const std::vector<std::string_view>& parts);

  // Removes what a process that was killed left of files that it had begun to write.
  void remove_unfinished();

  // Removes each file that has a place by now: nothing is left of a new run that was refused.
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
