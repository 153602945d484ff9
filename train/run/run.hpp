#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/run/checkpoint.hpp"

namespace tapestry {

// The folder of one training.
class Run {
 public:
  explicit Run(std::string folder) : folder_(std::move(folder)) {}

  // Where a new or resumed run named `name` goes when --out does not say: runs/<name>; a new run
  // beside an earlier one is runs/<name>-2, -3, …, and the last of these is the one resumed.
  static std::string default_folder(const std::string& name, bool resume);

  const std::string& folder() const { return folder_; }
  std::string config() const { return folder_ + "/config.toml"; }
  std::string metrics() const { return folder_ + "/metrics.jsonl"; }
  std::string checkpoint() const { return folder_ + "/checkpoint.safetensors"; }
  std::string best() const { return folder_ + "/best.safetensors"; }
  std::string trace() const { return folder_ + "/trace.json"; }
  std::string profile() const { return folder_ + "/profile.txt"; }
  std::string sessions() const { return folder_ + "/sessions.jsonl"; }
  std::string checksums() const { return folder_ + "/checksums.jsonl"; }
  std::string samples() const { return folder_ + "/samples.jsonl"; }

  std::vector<std::string> files() const {  // all of the above
    return {config(), metrics(), checksums(), checkpoint(), best(),
            trace(),  profile(), sessions(),  samples()};
  }

 private:
  std::string folder_;
};

// The folders of the seeds that `tapestry train --seeds` put into this one, by their numbers, but
// for those that have only just begun and measured nothing yet; none in a run's own.
std::vector<std::string> seed_folders(const std::string& folder);

// Each folder once, however it is written, without a slash at its end.
std::vector<std::string> different_folders(const std::vector<std::string>& folders);

// Keeps other processes from training into the same folder, until it goes or the process ends.
// What is in the folder is looked at under the lock: before, it may still change.
class RunLock {
 public:
  enum class Folder { make, find };

  // Makes the folder where it is missing, with those above it, or else refuses that (InputError),
  // as when another process holds the lock. std::runtime_error where it cannot be made.
  RunLock(const Run& run, Folder folder);
  ~RunLock();  // takes the folders that it made away again, as far as nothing was put into them
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  RunLock() = default;
  void make(const std::string& folder);
  void open(const std::string& folder);

  int descriptor_ = -1;
  std::vector<std::string> made_;  // the outermost first
};

bool is_trained_into(const Run& run);  // by a process that holds the lock

// The later one of the states that a run keeps, for the best model is a whole checkpoint as well;
// nothing where it has written none. InputError where one is damaged.
std::optional<Checkpoint> latest_checkpoint(const Run& run);

// Removes what a process left half written in the run's folder when it was killed.
void remove_unfinished(const Run& run);

// The checkpoint that RUN means: of a folder its best, or the last where there is no best; or the
// file itself. InputError where there is none.
std::string trained_checkpoint(const std::string& run);

// A trained model, ready to be used.
struct TrainedModel {
  Config config;
  std::unique_ptr<Task> task;
  TrainingState state;
};

// Of trained_checkpoint(run). `overrides` change its config.
TrainedModel load_trained(const std::string& run, const std::vector<std::string>& overrides,
                          bool needs_data);
TrainedModel load_trained(const Checkpoint& checkpoint, const std::vector<std::string>& overrides,
                          bool needs_data);

}  // namespace tapestry
