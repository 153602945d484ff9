#pragma once

#include <string>

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

 private:
  std::string folder_;
};

// Keeps other processes from training into the same folder, until it goes or the process ends.
class RunLock {
 public:
  explicit RunLock(const Run& run);  // InputError when another holds it
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

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

}  // namespace tapestry
